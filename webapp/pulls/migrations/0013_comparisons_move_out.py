import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Comparisons are an app of their own, on the table that they had."""

    dependencies = [
        ("comparisons", "0001_initial"),
        ("pulls", "0012_followed_sha"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="namedcomparison",
                    name="comparison",
                    field=models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="comparisons.comparison",
                    ),
                ),
                migrations.AlterField(
                    model_name="pulldataset",
                    name="comparison",
                    field=models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="comparisons.comparison",
                    ),
                ),
                migrations.DeleteModel(name="Comparison"),
            ],
        ),
    ]
