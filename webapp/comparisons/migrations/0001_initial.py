import django.db.models.deletion
from django.db import migrations, models

import webapp.core.clock


class Migration(migrations.Migration):
    """Comparisons come out of pull requests; their table stays what it is, for the release before as well."""

    initial = True

    dependencies = [
        ("datasets", "0007_states"),
        ("pulls", "0012_followed_sha"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Comparison",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("identity", models.CharField(max_length=64, unique=True)),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("rows", "The row diff of two transactions"),
                                    ("changelog", "The changelog of a range of history"),
                                    ("blame", "Who changed one row"),
                                ],
                                default="rows",
                                max_length=10,
                            ),
                        ),
                        ("rules", models.JSONField(default=dict)),
                        ("state", models.CharField(default="queued", max_length=10)),
                        ("progress", models.JSONField(default=dict)),
                        ("summary", models.JSONField(default=dict)),
                        ("schema", models.JSONField(default=dict)),
                        ("error", models.TextField(blank=True)),
                        ("code", models.CharField(blank=True, max_length=30)),
                        ("attempt", models.PositiveIntegerField(default=0)),
                        ("lease_until", models.DateTimeField(null=True)),
                        ("created_at", models.DateTimeField(default=webapp.core.clock.now)),
                        ("started_at", models.DateTimeField(null=True)),
                        ("finished_at", models.DateTimeField(null=True)),
                        (
                            "after",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="datasets.transaction",
                            ),
                        ),
                        (
                            "before",
                            models.ForeignKey(
                                null=True,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="+",
                                to="datasets.transaction",
                            ),
                        ),
                        (
                            "dataset",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="comparisons",
                                to="datasets.dataset",
                            ),
                        ),
                    ],
                    options={"db_table": "pulls_comparison"},
                ),
            ],
        ),
    ]
