from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def copy_targets(apps, schema_editor):
    pulls = apps.get_model('pulls', 'PullRequest').objects.filter(pk=OuterRef('pull'))
    apps.get_model('pulls', 'Merge').objects.update(target=Subquery(pulls.values('target')))


class Migration(migrations.Migration):

    dependencies = [
        ('pulls', '0003_remarks_and_viewed'),
    ]

    operations = [
        migrations.AddField(
            model_name='merge',
            name='target',
            field=models.CharField(db_default='', max_length=200),
        ),
        migrations.RunPython(copy_targets, migrations.RunPython.noop),
    ]
