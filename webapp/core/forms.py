"""How every form is drawn: our field template, and our classes on the widgets."""

from typing import Any

from django.forms import BoundField
from django.forms.renderers import TemplatesSetting

_PLAIN = {"checkbox", "radio", "hidden", "file", "range", "color"}


class StyledBoundField(BoundField):
    """A field whose text-like widgets carry the class of our inputs."""

    def build_widget_attrs(self, attrs: dict[str, Any], widget: Any = None) -> dict[str, Any]:
        """Add the class, keeping those that the form gave."""
        built = super().build_widget_attrs(attrs, widget)
        used = widget or self.field.widget
        if getattr(used, "input_type", "") not in _PLAIN:
            classes = built.get("class") or used.attrs.get("class", "")
            built["class"] = f"input {classes}".strip()
        return built


class FormRenderer(TemplatesSetting):
    """Renders forms by the project's templates."""

    field_template_name = "components/field.html"
    bound_field_class = StyledBoundField
