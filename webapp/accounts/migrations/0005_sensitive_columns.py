from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_audit_gaps'),
    ]

    operations = [
        migrations.CreateModel(
            name='SensitiveColumns',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('repository', models.CharField(max_length=100)),
                ('branch', models.CharField(max_length=200)),
                ('is_default', models.BooleanField()),
                ('path', models.CharField(max_length=400)),
                ('columns', models.JSONField(default=list)),
                ('groups', models.JSONField(default=list)),
            ],
            options={
                'indexes': [models.Index(fields=['repository', 'branch'], name='sensitive_of_branch')],
                'constraints': [models.UniqueConstraint(fields=('path', 'repository', 'branch'), name='sensitive_once_on_a_branch')],
            },
        ),
    ]
