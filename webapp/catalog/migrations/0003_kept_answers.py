"""Another name for the class, none for its table."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("catalog", "0002_scan_plans")]

    operations: ClassVar = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("IdempotencyRecord", "KeptAnswer"),
                migrations.AlterModelTable("KeptAnswer", "catalog_idempotencyrecord"),
            ]
        )
    ]
