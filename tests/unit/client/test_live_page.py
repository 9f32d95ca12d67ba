"""Who sees what of the live page."""

import pytest

from videoload.client.live_page import may_see_all


@pytest.mark.parametrize(
    ("token", "is_local", "host", "query", "bearer", "sees"),
    [
        (None, True, "127.0.0.1:9464", "", "", True),
        (None, True, "localhost:9464", "", "", True),
        (None, True, "[::1]:9464", "", "", True),
        (None, True, "evil.example:9464", "", "", False),  # a browser that another site misleads
        (None, True, "", "", "", False),
        (None, True, "[", "", "", False),
        (None, True, "[127.0.0.1]:9464", "", "", False),
        (None, False, "127.0.0.1:9464", "", "", False),  # maybe through a proxy
        (None, True, "127.0.0.1:9464", "token=x", "", None),
        ("right", True, "127.0.0.1:9464", "", "", False),  # another user of this host
        ("right", False, "trainer:9464", "", "", False),
        ("right", False, "trainer:9464", "token=right", "", True),
        ("right", False, "trainer:9464", "", "Bearer right", True),
        ("right", True, "evil.example", "token=right", "", True),
        ("right", True, "127.0.0.1:9464", "token=wrong", "", None),
        ("right", False, "trainer:9464", "token=righ", "", None),
        ("right", False, "trainer:9464", "token=r%C3%A9", "", None),
    ],
)
def test_paths_and_pixels_are_for_who_has_the_token_or_without_one_for_this_host(
    *, token: str | None, is_local: bool, host: str, query: str, bearer: str, sees: bool | None
) -> None:
    request = {"HTTP_HOST": host, "QUERY_STRING": query, "HTTP_AUTHORIZATION": bearer}
    assert may_see_all(request, token, is_local=is_local) is sees
