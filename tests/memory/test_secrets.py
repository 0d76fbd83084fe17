"""Keys and passwords in a text: named where there are some, never repeated, and honest sentences left alone.

The keys are put together here, so that no scanner takes this file for a leak.
"""

import random
import string
import time

import pytest

from vademecum.memory.secrets import recognised

LETTERS = string.ascii_letters + string.digits


def drawn(number: int, letters: str = LETTERS, seed: int = 1) -> str:
    return "".join(random.Random(f"{seed} {number}").choices(letters, k=number))


BASE64 = drawn(64, LETTERS + "+/")
HEX = drawn(40, "0123456789abcdef")
UUID = "6f1ed002-ab55-4d8b-9c2b-0a7d1e5f9b34"
JWT = f"eyJ{drawn(33)}.eyJ{drawn(80)}.{drawn(43, LETTERS + '-_')}"


def pem(kind: str, begin: str = "-----BEGIN", newline: str = "\n") -> str:
    return newline.join([f"{begin} {kind}-----", BASE64, BASE64, f"-----END {kind}-----"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (pem("PRIVATE KEY"), "a private key"),
        (pem("RSA PRIVATE KEY"), "a private key"),
        (pem("OPENSSH PRIVATE KEY", newline="\r\n"), "a private key"),
        (f'{{"private_key": "{pem("PRIVATE KEY", newline=chr(92) + "n")}"}}', "a private key"),
        (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{BASE64}", "a private key"),
        (f"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n{BASE64}", "a private key"),
        (f"id AKIA{drawn(16, string.ascii_uppercase + '234567')}.", "an AWS access key id"),
        (f"ASIA{drawn(16, string.ascii_uppercase + '234567')}", "an AWS access key id"),
        (f"aws_secret_access_key = {BASE64[:40]}", "an AWS secret access key"),
        (f'"SecretAccessKey": "{BASE64[:40]}"', "an AWS secret access key"),
        *(
            (f"token ghp_{drawn(36)}".replace("ghp", prefix), "a GitHub token")
            for prefix in ("ghp", "gho", "ghs", "ghr")
        ),
        (f"GITHUB_TOKEN=ghu_{drawn(36)}", "a GitHub token"),
        (f"`github_pat_{drawn(22)}_{drawn(59)}`", "a GitHub token"),
        (f"glpat-{drawn(20)}", "a GitLab token"),
        (f"xoxb-917306428157-{drawn(13, '0123456789')}-{drawn(24)}", "a Slack token"),
        (f"xapp-1-A0{drawn(9)}-{drawn(13, '0123456789')}-{drawn(64, '0123456789abcdef')}", "a Slack token"),
        (f"sk-{drawn(48)}", "an OpenAI or Anthropic key"),
        (f"sk-proj-{drawn(74, LETTERS + '-_')}", "an OpenAI or Anthropic key"),
        (f"ANTHROPIC_API_KEY=sk-ant-api03-{drawn(93, LETTERS + '-_')}AA", "an OpenAI or Anthropic key"),
        (f"?key=AIza{drawn(35)}&x", "a Google key"),
        (f"sk_live_{drawn(24)}", "a Stripe key"),
        (f"rk_live_{drawn(99)}", "a Stripe key"),
        (f"//registry/:_authToken=npm_{drawn(36)}", "an npm token"),
        (f"pypi-AgEIcHlwaS5vcmc{drawn(120, LETTERS + '-_')}", "a PyPI token"),
        (f"curl -H 'Authorization: Bearer {JWT}'", "a JSON web token"),
        ("postgres://app:hunter22@db.internal:5432/app", "a password in an address"),
        (f"redis://:{drawn(12)}@cache:6379", "a password in an address"),
        (f"https://x-access-token:{HEX}@forge.org/a.git", "a password in an address"),
        (f"Authorization: bearer {drawn(32)}", "a bearer token"),
        (f"API_KEY={HEX}", "a password or key in an assignment"),
        (f"apiKey: '{drawn(24)}'", "a password or key in an assignment"),
        (f'"client_secret" : "{drawn(32)}",', "a password or key in an assignment"),
        (f"secret_key_base => {drawn(64, '0123456789abcdef')}", "a password or key in an assignment"),
        (f"export DB_PASSWORD_2={drawn(16)}9aB", "a password or key in an assignment"),
        ("the password: Xk9#mP2q.", "a password or key in an assignment"),
        (f"passwd:={drawn(20)}", "a password or key in an assignment"),
    ],
)
def test_a_key_is_named_and_never_repeated(text: str, kind: str) -> None:
    assert recognised(text) == [kind]
    assert recognised(f"It is {text}\n\nand so on.") == [kind]


def test_every_kind_of_known_form_is_named_once() -> None:
    text = f"ghp_{drawn(36)} and ghp_{drawn(36, seed=2)}, glpat-{drawn(20)}, API_KEY={HEX}"
    assert recognised(text) == ["a GitHub token", "a GitLab token"]


def test_an_example_before_it_hides_no_key() -> None:
    assert recognised(f"Instead of ghp_{'x' * 36} it said ghp_{drawn(36)}") == ["a GitHub token"]
    assert recognised(f"password = <your-password>\npassword = {drawn(16)}7Qz") == [
        "a password or key in an assignment"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"Fixed in {HEX}, see {HEX[:12]}; the request was {UUID}.",
        f"sha256:{drawn(64, '0123456789abcdef')} and {drawn(64, '0123456789abcdef')}  notes.tar",
        f"integrity sha512-{BASE64}{BASE64[:22]}==",
        f"session {UUID}, token: {UUID}",
        f"token_digest: sha256:{HEX}, secret = sha256-{HEX}",
        "password = os.environ['DB_PASSWORD_2024']",
        'password = os.environ["A1B2C3"]',
        "const token = process.env.GITHUB_TOKEN_V2x3",
        "api_key = get_my1secret2key3from4vault('app')",
        "secret: vault.read2kv3path(name)",
        "def login(token: str, password: Optional[str] = None, secret: bytes = b'') -> None",
        "token: string; apiKey?: string; password: hunter2",
        "password: ${DB_PASSWORD_1a2b3c}",
        "token: ${{ secrets.NPM_TOKEN_1a2b3c }}",
        "PASSWORD=$DB_PASSWORD_1a2b3c4",
        "password: {{ vault_db1_pass2word }}",
        "api_key=<your-api-key-1a2b3c>",
        "API_KEY=your_api_key_1a2b3c4d",
        "password = CHANGE_ME_1a2B3c!",
        "token = 'xxxxxxxxxxxxxxxxxxxxxxxx1a2b3c'",
        "secret=example-Secret-1a2B3c",
        "secret: ********1a2b3c",
        "token=abcdefg1h2i3j4k5l6m7",
        "max_tokens = 4096, token_count: 128000, token_url=https://a1b2.example/c3d4e5",
        "tokenizer = cl100k_base1a2b3c4d5e6f",
        "token = claude-sonnet-4-5-20250929",
        "secret: projects/12345/secrets/db-password/versions/3",
        "password_hash, secret_name = prod2db1-a3b4c5d6e7f8g9",
        "The password is what the token says: a secret is a credential.",
        "The token: everything that a session needs, in a header",
        "Rotate the key; sk-... and ghp_... are prefixes, sk-learn-is-a-library-of-many-models is not a key.",
        f"sk-{'x' * 40} ghp_{'0' * 36} AIza{'x' * 35} npm_{'a' * 36}",
        "sk-your-key-goes-right-here-1a2b3c sk-1234567890abcdef1234567890abcdef",
        "AKIAIOSFODNN7EXAMPLE, aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        f"sk_test_{drawn(24)} pk_live_{drawn(24)}",
        "A file that starts with -----BEGIN PRIVATE KEY----- is one; ours had -----BEGIN CERTIFICATE----- instead.",
        f"-----BEGIN CERTIFICATE-----\n{BASE64}\n-----END CERTIFICATE-----",
        f"-----BEGIN PUBLIC KEY-----\n{BASE64}\n-----END PUBLIC KEY-----",
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{drawn(43)} me@host",
        "-----BEGIN PRIVATE KEY-----\nMIIE...\n-----END PRIVATE KEY-----",
        "postgres://user:password@localhost/db postgres://postgres:postgres@localhost redis://:$PASS@h",
        "https://user:<token>@forge.org https://{user}:{password}@h mysql://%s:%s@h ftp://u:***@h smb://me:mypassword@h",
        "http://localhost:8080/@scope/name http://[::1]:3000/a@b git@forge.org:22/a ssh://git@forge.org:22/a",
        "see https://example.org/a:b@c and mailto:someone@example.org",
        "eyJhbGciOi... is how a web token starts, as in eyJ0eXAi.eyJzdWIi.c2ln",
        "Bearer tokens are opaque; send Authorization: Bearer <token> or Bearer internationalization-of-messages",
        "私のパスワード: 猫と犬と鳥",
    ],
)
def test_an_honest_sentence_about_keys_is_left_alone(text: str) -> None:
    assert recognised(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "a", "eyJ", "-eyJ", "-eyJaaaaaaaaa.", "token=", "token", "token ", "a://a:", "ab://", "sk-", "-pypi-AgE",
        "bearer ", "password = x1x1x1x1", "ghp_", "xoxb-", "secret access key = ", "\n", "tok_key_key_", "ñ",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\na: b\na: b\n" + "A" * 31 + " ",
    ],
)  # fmt: skip
def test_a_long_text_takes_no_longer_than_its_length(text: str) -> None:
    started = time.perf_counter()
    assert recognised(text * (1_000_000 // len(text))) == []
    assert time.perf_counter() - started < 15  # 0.5 to 1.5 s on a quiet machine; squared it would be hours
