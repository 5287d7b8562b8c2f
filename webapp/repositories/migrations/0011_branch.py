"""Another name for the class, none for its table."""

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("repositories", "0010_commits")]

    operations: ClassVar = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("BranchRecord", "Branch"),
                migrations.AlterModelTable("Branch", "repositories_branchrecord"),
            ]
        )
    ]
