"""Reviews and merges lead to their commits, for which they carry the repository of their pull request."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import OuterRef, Subquery, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce


def name_commits(apps, _editor):
    """Fill what is new in rows that are there."""
    pulls = apps.get_model("pulls", "PullRequest").objects.filter(pk=OuterRef("pull_id"))
    repository = Subquery(pulls.values("repository_id"))
    apps.get_model("pulls", "Merge").objects.update(repository_id=repository)
    apps.get_model("pulls", "Review").objects.update(
        repository_id=repository, head_sha=Coalesce(KeyTextTransform("head", "seen"), Value(""))
    )


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0017_source_restored'),
        ('repositories', '0014_statuses'),
    ]

    operations = [
        migrations.AddField(
            model_name='merge',
            name='repository',
            field=models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='repositories.repository'),
        ),
        migrations.AddField(
            model_name='review',
            name='head_sha',
            field=models.CharField(blank=True, db_default='', max_length=40),
        ),
        migrations.AddField(
            model_name='review',
            name='repository',
            field=models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='repositories.repository'),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AddField(
                    model_name='merge',
                    name='landed_commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'merge_commit'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='merge',
                    name='source_commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'source_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='merge',
                    name='target_commit',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'target_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
                migrations.AddField(
                    model_name='review',
                    name='head',
                    field=models.ForeignObject(editable=False, from_fields=['repository', 'head_sha'], null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', serialize=False, to='repositories.commit', to_fields=['repository', 'sha']),
                ),
            ],
        ),
        migrations.RunPython(name_commits, migrations.RunPython.noop),
    ]
