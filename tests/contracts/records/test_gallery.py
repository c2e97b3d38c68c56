"""What the gallery's store promises: whose files it reads, in which order, how long marks last."""

from dataclasses import replace

import pytest

from bot.people.links import LinkEnds
from bot.platforms.web.routes import gallery_store
from bot.platforms.web.routes.gallery_store import GalleryStore, Wanted
from queueing.core.jobs import JobEvent
from queueing.core.requests import File, Output, TextToImage, TextToVideo
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database
from tests.contracts.store.store_harness import IMAGE, NOW, add, new, start

VECTORS = File(name="vectors.bin", mime="application/octet-stream", data=b"\x00")
CLIP = File(name="boat.mp4", mime="video/mp4", data=b"\x00\x01")


@pytest.fixture
def gallery(database: Database) -> GalleryStore:
    return GalleryStore(database)


async def made(
    database: Database, *files: File, prompt: str = "a cat", model: str = "flux", owner: str = "ada"
) -> int:
    """Complete a job with these files and return its id."""
    store = JobStore(database)
    makes = TextToVideo if CLIP in files else TextToImage
    asked = replace(new(model, owner=owner), request=makes(prompt=prompt))
    running = await start(store, await add(store, asked))
    done = await store.apply(running, JobEvent.COMPLETE, NOW, output=Output(files=files))
    return done.job.id


async def found(gallery: GalleryStore, **wanted: object) -> list[tuple[int, int]]:
    files, _ = await gallery.page("ada", replace(Wanted(), **wanted))  # type: ignore[arg-type]
    return [(file.job, file.number) for file in files]


async def test_files_are_found_by_owner_kind_model_words_and_mark(
    gallery: GalleryStore, database: Database
) -> None:
    """A stranger's files would be listed, or a person's own not be found."""
    cats = await made(database, VECTORS, IMAGE, IMAGE, prompt="A Cat and straße")
    boat = await made(database, CLIP, prompt="a boat", model="wan")
    await made(database, IMAGE, owner="bob")
    await made(database, VECTORS)
    await made(database)
    assert await found(gallery) == [(boat, 1), (cats, 2), (cats, 3)]
    assert await found(gallery, kind="video") == await found(gallery, model="wan") == [(boat, 1)]
    assert await found(gallery, text=" STRASSE cat") == [(cats, 2), (cats, 3)]
    assert [file.image for file in await gallery.of_job("ada", cats)] == [1, 2]
    assert await gallery.models("ada") == ["flux", "wan"]
    assert await gallery.of_job("bob", cats) == []
    for _ in range(2):
        await gallery.mark(cats, 3, favourite=True)
    assert await found(gallery, favourite=True) == [(cats, 3)]
    await gallery.mark(cats, 3, favourite=False)
    await gallery.mark(cats, 9, favourite=True)  # there is no such file
    assert await found(gallery, favourite=True) == []


async def test_a_mark_leaves_with_its_file_and_a_deleted_result_from_the_gallery(
    gallery: GalleryStore, database: Database
) -> None:
    """Deleted or expired results would be listed, or their mark keep them from being deleted."""
    expired, erased, deleted = [await made(database, IMAGE) for _ in range(3)]
    for job_id in (expired, erased, deleted):
        await gallery.mark(job_id, 1, favourite=True)
    store = JobStore(database)
    job = await store.get(expired)
    assert job is not None
    await store.acknowledge(job)
    await JobStore(database).purge(0.0, keep_mb=0)
    await JobStore(database).erase([erased])
    await LinkEnds(database).end(deleted)
    assert await found(gallery) == []
    assert await database.rows("SELECT job_id FROM favourites") == [(deleted,)]


async def test_pages_hold_every_file_once(
    gallery: GalleryStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scrolling would skip files, repeat them, or never end."""
    monkeypatch.setattr(gallery_store, "PAGE", 3)
    monkeypatch.setattr(gallery_store, "_AT_ONCE", 2)
    monkeypatch.setattr(gallery_store, "_READ_MOST", 4)
    counts = (1, 2, 2, 1, 1, 0, 1)
    jobs = [
        await made(database, *[IMAGE] * count, prompt=f"{number % 3}")
        for number, count in enumerate(counts)
    ]
    for text, want in (("", counts), ("0", (1, 0, 0, 1, 0, 0, 1))):
        seen: list[int] = []
        before: int | None = None
        while True:
            files, before = await gallery.page("ada", Wanted(before=before, text=text))
            seen += [file.job for file in files]
            if before is None:
                break
        assert seen == [
            job for job, n in reversed([*zip(jobs, want, strict=True)]) for _ in range(n)
        ]
