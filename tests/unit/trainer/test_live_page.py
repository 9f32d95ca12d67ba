"""Who sees what of the live page."""

from __future__ import annotations

import pytest

from videoload.trainer.live_page import may_see_all


@pytest.mark.parametrize(
    ("is_local", "host", "query", "bearer", "sees"),
    [
        (True, "127.0.0.1:9464", "", "", True),
        (True, "localhost:9464", "", "", True),
        (True, "[::1]:9464", "", "", True),
        (True, "evil.example:9464", "", "", False),  # a browser that another site misleads
        (True, "", "", "", False),
        (True, "[", "", "", False),
        (True, "[127.0.0.1]:9464", "", "", False),
        (False, "127.0.0.1:9464", "", "", False),  # maybe through a proxy
        (False, "trainer:9464", "token=right", "", True),
        (False, "trainer:9464", "", "Bearer right", True),
        (True, "evil.example", "token=right", "", True),
        (True, "127.0.0.1:9464", "token=wrong", "", None),
        (False, "trainer:9464", "token=righ", "", None),
        (False, "trainer:9464", "token=r%C3%A9", "", None),
    ],
)
def test_paths_and_pixels_are_for_this_host_and_for_who_has_the_token(
    *, is_local: bool, host: str, query: str, bearer: str, sees: bool | None
) -> None:
    request = {"HTTP_HOST": host, "QUERY_STRING": query, "HTTP_AUTHORIZATION": bearer}
    assert may_see_all(request, "right", is_local=is_local) is sees


def test_where_there_is_no_token_every_token_is_wrong() -> None:
    assert may_see_all({"QUERY_STRING": "token=x"}, None, is_local=False) is None
    assert may_see_all({"QUERY_STRING": ""}, None, is_local=False) is False
