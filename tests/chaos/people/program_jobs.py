"""Jobs that programs submit through the native API, wait for, and fetch."""

from http import HTTPStatus
from typing import Any

from tests.chaos.people.program_calls import Given, ProgramCall, Refusal

WAIT_S = 2  # a long poll; short, so that a job takes several


class NativeJob(ProgramCall):
    """A job with a key: hanging up changes nothing, and it has its own call for cancelling."""

    hangs_up = True
    draws = True
    _unwanted = False

    async def once(self) -> Given | None:
        async with self.session.post(
            f"{self.url}/jobs", json=self._body(), headers=self._headers
        ) as response:
            if await self._refused(response):
                return None
            view = await response.json()
        await self._look_as_another(view["id"])
        while view["state"] in {"pending", "processing"}:
            if self._unwanted:
                view = await self._call("DELETE", f"jobs/{view['id']}")
            else:
                view = await self._call("GET", f"jobs/{view['id']}?wait={WAIT_S}")
        if view["state"] != "completed":
            raise Refusal(f"{view['state']} {view['error']}")
        return await self._fetched(view)

    async def cancel(self) -> bool:
        self._unwanted = True
        return False

    def _body(self) -> dict[str, Any]:
        if self.draws:
            return {"model": self.wish.model, "prompt": self.wish.prompt}
        return {"model": self.wish.model, "messages": self.wish.conversation}

    async def _fetched(self, view: Any) -> Given:
        images = []
        for file in view["files"]:
            path = f"{self.url}/jobs/{view['id']}/files/{file['number']}"
            async with self.session.get(path, headers=self.wish.headers) as response:
                response.raise_for_status()
                images.append(await response.read())
        return Given(text=view["text"] or "", images=tuple(images))

    async def _call(self, method: str, path: str) -> Any:
        async with self.session.request(
            method, f"{self.url}/{path}", headers=self.wish.headers
        ) as response:
            response.raise_for_status()
            return await response.json()

    async def _look_as_another(self, job: int) -> None:
        """Expect that another person does not find the job."""
        if self.wish.others == self.wish.headers:
            return
        path = f"{self.url}/jobs/{job}"
        async with self.session.get(path, headers=self.wish.others) as response:
            if response.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE}:
                self.faults.append(f"another person sees job {job}: {response.status}")


class NativeText(NativeJob):
    """A conversation as a job."""

    draws = False
