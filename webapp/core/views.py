"""The API's own documents."""

from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView

openapi = SpectacularJSONAPIView.as_view()
docs = SpectacularSwaggerSplitView.as_view(url_name="openapi")
