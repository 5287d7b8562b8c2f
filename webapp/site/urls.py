"""Pages that belong to the whole site, not to one noun."""

from django.urls import path

from webapp.site.views import guide, home, styleguide, tour

page_urls = [
    path("", home.show_home, name="home"),
    path("home/server", home.show_server, name="home-server"),
    path("activity", home.show_activity, name="activity"),
    path("search", home.search, name="search"),
    path("guide", guide.show_chapter, name="guide"),
    path("guide/<slug:name>", guide.show_chapter, name="guide-chapter"),
    path("tour/end", tour.end_tour, name="tour-end"),
    path("styleguide", styleguide.show_guide, name="styleguide"),
]
