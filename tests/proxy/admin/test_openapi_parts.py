"""The parts of an operation: its answers, and the errors that it may give."""

from proxy.admin import openapi_parts as parts


def test_an_operation_lists_its_answers_and_its_errors() -> None:
    """Each error has the reason of its status, and the same shape."""
    made = parts.operation("Do it.", {200: parts.json_content("Done")}, parts.CHANGES)
    assert made["summary"] == made["responses"]["200"]["description"] == "Do it."
    assert set(made["responses"]) == {"200", *map(str, parts.CHANGES)}
    for code in parts.CHANGES:
        error = made["responses"][str(code)]
        assert error["description"] == parts.WHY[code]
        assert error["content"] == parts.json_content("Error")


def test_a_body_and_parameters_are_left_out_where_there_are_none() -> None:
    """An empty list is not in the document."""
    assert set(parts.operation("Do it.", {}, ())) == {"summary", "responses"}
    full = parts.operation("Do it.", {}, (), [{"name": "id"}], parts.json_body("Asked"))
    assert full["requestBody"]["required"]
    assert full["parameters"] == [{"name": "id"}]
