from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('catalog', '0004_staged_locations'),
    ]

    operations = [
        migrations.AddField(
            model_name='table',
            name='uuid',
            field=models.CharField(db_default='', default='', max_length=100),
        ),
        migrations.AddField(
            model_name='view',
            name='uuid',
            field=models.CharField(db_default='', default='', max_length=100),
        ),
    ]
