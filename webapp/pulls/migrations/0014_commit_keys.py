"""Keys over columns that are there: tables stay as they are."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0013_comparisons_move_out'),
        ('repositories', '0012_commit_keys'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField(
                    model_name='pullrequest',
                    name='head',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'head_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='pulls', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='pullrequest',
                    name='base',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'base_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='specrecord',
                    name='commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
            ],
        ),
    ]
