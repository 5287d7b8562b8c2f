"""The API's own documents."""

from functools import cache
from threading import Lock

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request

_generating = Lock()
"""The generator keeps its state in the classes of the views, so two threads must not use it at once."""


class OpenApiView(SpectacularJSONAPIView):  # type: ignore[misc]  # drf-spectacular says nothing of its types
    """The description of all operations: the same for everybody, and made once, since anybody may ask for it at any rate."""

    def _get_schema_response(self, _request: Request) -> HttpResponse:
        with _generating:
            document = _write_document()
        return HttpResponse(document, content_type=OpenApiJsonRenderer.media_type)


@cache
def _write_document() -> bytes:
    document = SchemaGenerator().get_schema(public=True)
    written: bytes = OpenApiJsonRenderer().render(document)
    return written


openapi = OpenApiView.as_view()
docs = SpectacularSwaggerSplitView.as_view(url_name="openapi")
