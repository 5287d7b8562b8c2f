import django.db.models.deletion
from django.db import migrations, models

BATCH = 1000


def copy_inputs(apps, schema_editor):
    """Write who reads what from the JobSpecs that are published."""
    published_input = apps.get_model('builds', 'PublishedInput')
    specs = apps.get_model('builds', 'PublishedSpec').objects.only('branch', 'spec')
    waiting = []
    for row in specs.iterator(BATCH):
        paths = {each['path'] for each in row.spec.get('inputs', ())}
        waiting += [published_input(spec_id=row.pk, branch=row.branch, path=path) for path in sorted(paths)]
        if len(waiting) >= BATCH:
            published_input.objects.bulk_create(waiting)
            waiting = []
    published_input.objects.bulk_create(waiting)


class Migration(migrations.Migration):

    dependencies = [
        ('builds', '0005_code_sha'),
    ]

    operations = [
        migrations.CreateModel(
            name='PublishedInput',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('branch', models.CharField(max_length=220)),
                ('path', models.CharField(max_length=500)),
                ('spec', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='inputs', to='builds.publishedspec')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('path', 'branch', 'spec'), name='published_input_once')],
            },
        ),
        migrations.RunPython(copy_inputs, migrations.RunPython.noop),
    ]
