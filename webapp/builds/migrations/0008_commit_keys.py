"""Keys over columns that are there: tables stay as they are."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('builds', '0007_states'),
        ('repositories', '0012_commit_keys'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField(
                    model_name='build',
                    name='commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='builds', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='build',
                    name='code_commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'code_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='publishedspec',
                    name='commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='publishedspec',
                    name='changed_in',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'changed_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
            ],
        ),
    ]
