"""A comparison of what came since one reviewer's last review, beside those that say the same to everybody."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('comparisons', '0002_leases'),
        ('datasets', '0008_git_head'),
        ('pulls', '0018_commits_of_reviews_and_merges'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='namedcomparison',
            name='comparison_named_once',
        ),
        migrations.AddField(
            model_name='namedcomparison',
            name='reviewer',
            field=models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='namedcomparison',
            name='name',
            field=models.CharField(choices=[('base', 'this branch: the head against what the branch started from'), ('inputs', "effect of the code: the head against what the base's code makes of the same inputs"), ('master', "against the target now: the head against the target's newest data"), ('since', 'what the target did since'), ('before', 'what was there before the pull request that is reverted'), ('seen', "what came since the reader's last review")], max_length=10),
        ),
        migrations.AddConstraint(
            model_name='namedcomparison',
            constraint=models.UniqueConstraint(condition=models.Q(('reviewer', None)), fields=('row', 'name'), name='comparison_named_once'),
        ),
        migrations.AddConstraint(
            model_name='namedcomparison',
            constraint=models.UniqueConstraint(fields=('row', 'reviewer'), name='comparison_of_reviewer_once'),
        ),
    ]
