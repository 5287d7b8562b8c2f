from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("datasets", "0003_definitions_of_deleted_branches")]

    operations = [
        migrations.AlterField(
            model_name="transaction",
            name="type",
            field=models.CharField(
                choices=[
                    ("SNAPSHOT", "Replaces what was there"),
                    ("APPEND", "Adds rows only"),
                    ("UPDATE", "Adds and rewrites rows, or changes schema, spec, order or properties alone"),
                    ("DELETE", "Removes rows only"),
                ],
                max_length=8,
            ),
        ),
    ]
