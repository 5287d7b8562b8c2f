"""Pages, streams and endpoints of builds, jobs, JobSpecs, uploads and lineage."""

from django.urls import URLPattern, URLResolver, path

from webapp.builds import api
from webapp.builds.views import branches, events, pages, uploads

page_urls: list[URLPattern | URLResolver] = [
    path("builds", pages.list_builds, name="builds"),
    path("builds/new", pages.new_build, name="build-new"),
    path("builds/<int:build_id>", pages.show_build, name="build"),
    path("builds/<int:build_id>/cancel", pages.cancel_build, name="build-cancel"),
    path("builds/<int:build_id>/retry", pages.retry_build, name="build-retry"),
    path("builds/<int:build_id>/plan", pages.show_plan, name="build-plan"),
    path("jobs/<str:job_id>/log", pages.download_log, name="job-log"),
    path("r/<str:name>/branches/restore", branches.restore_branch, name="branch-restore"),
    path("r/<str:name>/builds", pages.list_repository_builds, name="repository-builds"),
    path("r/<str:name>/jobspecs", pages.list_jobspecs, name="repository-jobspecs"),
    path("datasets/<int:dataset_id>/lineage", pages.show_lineage, name="dataset-lineage"),
    path("upload", uploads.send_file, name="upload"),
    path("upload/<str:draft>", uploads.check_file, name="upload-check"),
    path("events/jobs/<str:job_id>/log", events.job_log, name="events-job-log"),
    path("events/builds/<int:build_id>", events.build, name="events-build"),
]
api_urls: list[URLPattern | URLResolver] = [
    path("builds", api.BuildList.as_view(), name="api-builds"),
    path("builds/<int:build_id>", api.BuildDetail.as_view(), name="api-build"),
    path("builds/<int:build_id>/cancel", api.BuildCancel.as_view(), name="api-build-cancel"),
    path("builds/<int:build_id>/retry", api.BuildRetry.as_view(), name="api-build-retry"),
    path("jobs/<str:job_id>", api.JobDetail.as_view(), name="api-job"),
    path("jobs/<str:job_id>/log", api.JobLog.as_view(), name="api-job-log"),
    path("repositories/<str:repo>/jobspecs", api.JobSpecList.as_view(), name="api-jobspecs"),
    path("datasets/<int:dataset_id>/lineage", api.DatasetLineage.as_view(), name="api-dataset-lineage"),
    path("datasets/<int:dataset_id>/upload", api.DatasetUpload.as_view(), name="api-dataset-upload"),
]
