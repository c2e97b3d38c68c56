"""PostList: every post of a configuration, whether it was ever held or not."""

from collections.abc import Iterable, Sequence

from queueing.core.concurrency import timeout
from queueing.core.errors import StoreError
from queueing.core.leases import PostHolder, Posts

PATIENCE_S = 3.0


class PostList:
    """Implements `PostReader` over the posts in the database; `names` are those there are."""

    def __init__(self, posts: Posts, names: Sequence[str]) -> None:
        self._posts = posts
        self._names = names

    async def posts(self) -> Sequence[PostHolder]:
        """Return every post there is, held or free. Raises `StoreError`."""
        try:
            async with timeout(PATIENCE_S):
                return listed(self._names, await self._posts.holders())
        except TimeoutError as error:
            raise StoreError("the database does not answer") from error


def listed(names: Sequence[str], known: Iterable[PostHolder]) -> Sequence[PostHolder]:
    """Return a post for each name in that order; one whose lease is over has no holder."""
    held = {post.name: post for post in known if post.holder and post.left_s > 0}
    return [
        held.get(name, PostHolder(name=name, holder="", address="", epoch=0, left_s=0.0))
        for name in names
    ]
