"""Comparisons get names. Those that are stored began with the target's newest data, or with a base side."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def name_stored(apps: Any, _schema_editor: Any) -> None:
    """Say of every dataset of a pull request what it was compared with, until it is looked at again."""
    rows = apps.get_model("pulls", "PullDataset").objects.exclude(comparison=None)
    reviewed = rows.filter(before__branch_name__startswith="_review/").values_list("pk", flat=True)
    names = {"inputs": list(reviewed), "master": list(rows.exclude(pk__in=list(reviewed)).values_list("pk", flat=True))}
    for name, chosen in names.items():
        apps.get_model("pulls", "PullDataset").objects.filter(pk__in=chosen).update(compared=name)


class Migration(migrations.Migration):

    dependencies = [
        ('datasets', '0004_transaction_type_words'),
        ('pulls', '0005_checks_and_rules'),
    ]

    operations = [
        migrations.AddField(
            model_name='pulldataset',
            name='compared',
            field=models.CharField(choices=[('base', 'this branch: the head against what the branch started from'), ('inputs', "effect of the code: the head against what the base's code makes of the same inputs"), ('master', "against the target now: the head against the target's newest data")], db_default='master', default='base', max_length=10),
        ),
        migrations.CreateModel(
            name='NamedComparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(choices=[('base', 'this branch: the head against what the branch started from'), ('inputs', "effect of the code: the head against what the base's code makes of the same inputs"), ('master', "against the target now: the head against the target's newest data"), ('since', 'what the target did since')], max_length=10)),
                ('after', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='datasets.transaction')),
                ('before', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='datasets.transaction')),
                ('comparison', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='pulls.comparison')),
                ('row', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='pulls.pulldataset')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('row', 'name'), name='comparison_named_once')],
            },
        ),
        migrations.RunPython(name_stored, migrations.RunPython.noop),
    ]
