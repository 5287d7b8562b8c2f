#!/usr/bin/env python
"""Run one management command of Tributary."""

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        from webapp.runtime.handed_over import find_home, hand_over

        hand_over(find_home())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
