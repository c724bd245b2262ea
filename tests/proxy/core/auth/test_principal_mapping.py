r"""The users of certificates, by Kafka's rules: the cases of `SslPrincipalMapperTest`, and the limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth.principal_mapping import MAX_SUBJECT_CHARS, MappingRuleError, PrincipalMapper
from tests.support.messages.every_case import for_each

KAFKA_VALID = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
    "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
    "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
]
KAFKA_INVALID = [
    "default",
    "DEFAUL",
    "DEFAULT/L",
    "DEFAULT/U",
    "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
    "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
]
KAFKA_RULES = [
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "DEFAULT",
]
KAFKA_NAMES = {
    "CN=Duke,OU=ServiceUsers,O=Org,C=US": "duke",
    "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US": "duke@sme",
    "cn=duke,ou=sme,dc=mycp,dc=com": "DUKE@SME",
    "cN=duke,OU=JavaSoft,O=Sun Microsystems": "DUKE",
    "OU=JavaSoft,O=Sun Microsystems,C=US": "OU=JavaSoft,O=Sun Microsystems,C=US",
}
KAFKA_SPLITTING = [
    ("DEFAULT", ["DEFAULT"]),
    ("RULE://", ["RULE:/"]),
    ("RULE:/.*/", ["RULE:/.*"]),
    ("RULE:/.*/L", ["RULE:/.*/L"]),
    ("RULE://,DEFAULT", ["RULE:/", "DEFAULT"]),
    ("  RULE:// ,  DEFAULT  ", ["RULE:/", "DEFAULT"]),
    ("  RULE:   /     / ,  DEFAULT  ", ["RULE:   /     ", "DEFAULT"]),
    ("  RULE:  /     /U   ,DEFAULT  ", ["RULE:  /     /U", "DEFAULT"]),
    (
        "  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
        ["RULE:([A-Z]*)/$1/U", "RULE:([a-z]+)/$1", "DEFAULT"],
    ),
    (",,RULE://,,,DEFAULT,,", ["RULE:/", "DEFAULT"]),
    (",  , RULE: /   /    ,,,   DEFAULT, ,   ", ["RULE: /   ", "DEFAULT"]),
    ("     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,", ["RULE:   /  /U", "DEFAULT"]),
    (r"RULE:\/\\\(\)\n\t/\/\//", [r"RULE:\/\\\(\)\n\t/\/\/"]),
    (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", [r"RULE:\**\/+/*/L", r"RULE:\/*\**/**"]),
    (
        (
            r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,"
            "RULE:, DEFAULT, /DEFAULT/,DEFAULT"
        ),
        [
            r"RULE:,RULE:,/,RULE:,\//U",
            "RULE:,/RULE:,",
            "RULE:,RULE:,/L,RULE:,/L",
            "RULE:, DEFAULT, /DEFAULT",
            "DEFAULT",
        ],
    ),
]


@for_each(KAFKA_VALID)
def test_rules_that_kafka_takes_are_taken(rules: str) -> None:
    """The valid rules of Kafka's own test are valid."""
    assert PrincipalMapper([rules]).rules


@for_each(KAFKA_INVALID)
def test_rules_that_kafka_refuses_are_refused_by_name(rules: str) -> None:
    """The invalid rules of Kafka's own test are invalid, and the error names the rule."""
    with pytest.raises(MappingRuleError, match="principal mapping rule") as refused:
        PrincipalMapper([rules])

    assert repr(rules.split(",OU", maxsplit=1)[0])[1:-1] in str(refused.value)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(("subject", "user"), KAFKA_NAMES.items())
def test_the_first_rule_that_matches_makes_the_user(
    subject: str, user: str, *, joined: bool
) -> None:
    """The users are those of Kafka's own test, for rules in one text and in a list."""
    rules = [", ".join(KAFKA_RULES)] if joined else KAFKA_RULES

    assert PrincipalMapper(rules).user_of(subject) == user


@for_each(KAFKA_SPLITTING)
def test_commas_split_rules_but_not_within_one(text: str, rules: list[str]) -> None:
    """Several rules in one text are split as in Kafka's own test; empty ones are ignored."""
    assert list(PrincipalMapper([text]).rules) == rules


def test_a_comma_with_white_space_stays_in_the_user() -> None:
    """An escaped comma of a subject is a part of the user (KAFKA-7971)."""
    mapper = PrincipalMapper([r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT"])

    assert mapper.user_of(r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz") == r"Tkac\, Adam"


@pytest.mark.parametrize("rules", [[], [""], [",   , , ,      , , ,   "]])
def test_no_rule_at_all_is_refused(rules: list[str]) -> None:
    """Without a rule no certificate would have a user, so this is an error of the settings."""
    with pytest.raises(MappingRuleError, match="no principal mapping rule, expected DEFAULT or"):
        PrincipalMapper(rules)


@pytest.mark.parametrize(
    ("rule", "user"),
    [
        (r"RULE:CN=(.*)/$0/", "CN=ab"),
        (r"RULE:CN=(.*)/$1$1/", "abab"),
        (r"RULE:CN=(.*)/$12/", "ab2"),  # there is no group 12
        (r"RULE:CN=(.*)/$1@$4/", "ab@$4"),  # there is no group 4: Kafka takes it as text
        (r"RULE:CN=(.*)/$4$5/", "$4$5"),
        (r"RULE:CN=(.*)/\$1/", "$1"),
        (r"RULE:CN=(.*)/\\$1\//", r"\ab/"),
        (r"RULE:CN=(x)?(.*)/[$1]$2/", "[]ab"),  # a group without a part in the match is empty
        (r"RULE:(?i)cn=(.*)/$1/", "ab"),
        (r"RULE:CN=(?:(A)|.)b/user/", "user"),
        (r"RULE:CN=(.*)/$1.EXAMPLE/L", "ab.example"),
        (r"RULE:CN=(.*)/$1.example/U", "AB.EXAMPLE"),
        (r"RULE:[^=]/x/,RULE:[^=]+=ab/y/", "y"),
        (r"RULE:C|CN=ab/x/", "xN=ab"),  # each match is replaced, as by Java's replaceAll
    ],
)
def test_a_replacement_is_read_as_java_reads_it(rule: str, user: str) -> None:
    """References, escapes and texts of a replacement mean what they mean in Kafka."""
    assert PrincipalMapper([rule]).user_of("CN=ab") == user


def test_a_pattern_that_matches_empty_text_replaces_it_too() -> None:
    """`.*` matches the subject, and the empty rest after it: Java replaces both."""
    assert PrincipalMapper(["RULE:.*/x/"]).user_of("CN=ab") == "xx"


def test_digits_and_words_of_a_pattern_are_ascii() -> None:
    """A pattern's short classes match ASCII only, as in Java, so that no other letter is taken for one."""
    mapper = PrincipalMapper([r"RULE:CN=(\w+)/$1/", r"RULE:CN=(\d+)/$1/"])

    assert mapper.user_of("CN=user1") == "user1"
    assert mapper.user_of("CN=üser") is None
    assert mapper.user_of("CN=\u0663") is None


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (r"RULE:CN=(.*/$1/", "unterminated"),
        (r"RULE:CN=(?<name>.*)/$1/", "unknown extension"),
        (r"RULE:CN=\p{L}+/x/", "bad escape"),
        (r"RULE:CN=\Qa\E/x/", "bad escape"),
        (r"RULE:CN=[a-z&&[^b]]/x/", "&& in a character class is not supported"),
        (r"RULE:CN=[a[bc]]/x/", r"\[ in a character class is not supported"),
        (r"RULE:CN=[]a[]/x/", r"\[ in a character class is not supported"),
        (r"RULE:CN=\0101/x/", "octal"),
        (r"RULE:CN=a{99999999999999999999}/x/", "too large"),
        (r"RULE:CN=.*/$1/", "no group 1"),
        (r"RULE:CN=(.*)/$name/", "expected a digit"),
        (r"RULE:CN=(.*)/${name}/", "expected a digit"),
    ],
)
def test_what_python_cannot_use_is_refused_when_it_is_read(rule: str, why: str) -> None:
    """A pattern or replacement that has no meaning, or another one than in Java, is an error that names the rule."""
    with pytest.raises(MappingRuleError, match=why) as refused:
        PrincipalMapper([rule])

    assert repr(rule) in str(refused.value)


@pytest.mark.parametrize("subject", [r"CN=a]", "CN=a[", "CN=-", "CN=&"])
def test_brackets_in_a_class_are_allowed_if_both_languages_agree(subject: str) -> None:
    """An escaped bracket is not a nested class, and one sign is not an operator."""
    assert PrincipalMapper([r"RULE:CN=([]a&\[\]-]+)/$1/"]).user_of(subject) == subject[3:]


@pytest.mark.parametrize(
    ("rule", "subject"),
    [
        ("RULE:CN=(a.*)/$1/", "CN=bob"),
        ("RULE:CN=(a*).*/$1/", "CN=bob"),  # an empty name
        ("DEFAULT", ""),
        ("DEFAULT", "CN=a\nb"),
        ("DEFAULT", "CN=a\0"),
        ("DEFAULT", "CN=a\u2028"),
        ("DEFAULT", "C" * (MAX_SUBJECT_CHARS + 1)),
        ("RULE:(.*)/$1$1/", "C" * MAX_SUBJECT_CHARS),
    ],
)
def test_a_subject_without_a_usable_name_has_no_user(rule: str, subject: str) -> None:
    """No match, an empty name, control characters and too long names give no user; Kafka has an error there, too."""
    assert PrincipalMapper([rule]).user_of(subject) is None


def test_the_longest_subject_is_taken() -> None:
    """The bound itself is allowed."""
    subject = "C" * MAX_SUBJECT_CHARS

    assert PrincipalMapper(["DEFAULT"]).user_of(subject) == subject


@given(st.text(alphabet=r"RULE:DFATx.*?()[]{}$\/^|&-, 01LU" + "\n", max_size=40), st.text())
def test_any_rule_is_read_or_refused_and_any_subject_has_a_user_or_none(
    rule: str, subject: str
) -> None:
    """No text of a rule or a subject raises another error."""
    try:
        mapper = PrincipalMapper([rule, "DEFAULT"])
    except MappingRuleError:
        return
    mapper.user_of(subject[:20])
