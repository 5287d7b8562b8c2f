from django.db import migrations, models


class Migration(migrations.Migration):
    """The column keeps its name, by which the release before this one reads and writes it."""

    dependencies = [
        ('pulls', '0009_base_note'),
    ]

    operations = [
        migrations.AlterField(
            model_name='pulldataset',
            name='has_jobspec',
            field=models.BooleanField(db_column='has_jobspec', db_default=True, default=True),
        ),
        migrations.RenameField(
            model_name='pulldataset',
            old_name='has_jobspec',
            new_name='is_rebuilt',
        ),
    ]
