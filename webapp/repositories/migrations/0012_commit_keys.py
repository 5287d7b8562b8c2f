"""Keys over columns that are there: tables stay as they are."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('repositories', '0011_branch'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField(
                    model_name='branch',
                    name='head',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'announced_head'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='branches', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='headmove',
                    name='commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'after'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='publication',
                    name='commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='publications', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
            ],
        ),
    ]
