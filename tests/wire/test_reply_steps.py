"""The code that reads the error codes of a reply can be made before the first reply."""

from wire import apis, reply_steps
from wire.codec import response_shape


def test_it_is_made_once_and_early():
    """A version that the codec does not know is left alone."""
    reply_steps.steps_of.cache_clear()
    api = apis.known(apis.ApiKey.CREATE_TOPICS, 7)
    unknown = apis.known(apis.ApiKey.CREATE_TOPICS, 0)
    assert api is not None
    assert unknown is not None
    for each in (api, unknown):
        reply_steps.prepare(each)
    made = reply_steps.steps_of.cache_info().misses
    assert made >= 1
    steps = reply_steps.steps_of(response_shape(api))
    assert [step.kind for step in steps.steps] == ["other", "items"]
    assert reply_steps.steps_of.cache_info().misses == made
