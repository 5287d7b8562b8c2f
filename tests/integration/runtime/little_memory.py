"""The product's settings, with little memory for what is being sent: what fills it costs a test little, too."""

from webapp.config.settings import *  # noqa: F403
from webapp.runtime.web import bodies

LIMIT = 4 * 1024 * 1024
bodies.memory.limit = LIMIT
