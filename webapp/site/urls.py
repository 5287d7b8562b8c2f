"""Pages that belong to the whole site, not to one noun."""

from django.urls import path

from webapp.site.views import home, styleguide

page_urls = [
    path("", home.show_home, name="home"),
    path("home/server", home.show_server, name="home-server"),
    path("search", home.search, name="search"),
    path("styleguide", styleguide.show_guide, name="styleguide"),
]
