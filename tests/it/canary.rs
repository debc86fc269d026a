//! Secrets that tests search for: credentials with a unique word, and the random part of tokens.
//!
//! `tests/run.sh` takes the word from here and searches the logs of the whole run for it.

use std::any::Any;
use std::error::Error;
use std::fmt::{Debug, Display};

/// The word in every credential. Messages of tests must not show it either.
pub(crate) const CANARY: &str = "zilpzalp";

/// A user, a password, and a password that no server accepts. URLs have to escape the special characters.
pub(crate) const USER: &str = "zilpzalp-user";
pub(crate) const LOCKER: &str = "zilpzalp-locker";
pub(crate) const PASSWORD: &str = "zilpzalp-p@ss:w/o?r#d%&+";
pub(crate) const WRONG: &str = "zilpzalp-shibboleth";

/// [`PASSWORD`] as it is written in a URL.
pub(crate) const ESCAPED: &str = "zilpzalp-p%40ss%3Aw%2Fo%3Fr%23d%25%26%2B";

/// The number of consecutive bytes of a token that count as a secret. `Debug` shows two bytes.
const PIECE: usize = 4;

/// The random part of a token.
const RANDOM: usize = 20;

/// The number of characters before a secret that a failure shows.
const SHOWN: usize = 80;

/// The secrets that must not be shown, in every spelling.
#[derive(Clone)]
pub(crate) struct Secrets {
    spellings: Vec<String>,
}

impl Secrets {
    /// Returns only the canary.
    pub(crate) fn credentials() -> Self {
        Self {
            spellings: spellings(CANARY.as_bytes()),
        }
    }

    /// Adds every piece of the random part of this token.
    pub(crate) fn token(&mut self, token: &[u8]) {
        for piece in token[..RANDOM].windows(PIECE) {
            self.spellings.extend(spellings(piece));
        }
    }

    #[track_caller]
    pub(crate) fn assert_not_in(&self, situation: &str, text: &str) {
        if let Some(before) = self.find(text) {
            // Does not show the text itself, because the secret would be in the log.
            panic!("{situation}: a secret is shown behind {before:?}");
        }
    }

    /// Checks `Debug`, short and long.
    #[track_caller]
    pub(crate) fn debug(&self, situation: &str, value: impl Debug) {
        self.assert_not_in(situation, &format!("{value:?}"));
        self.assert_not_in(situation, &format!("{value:#?}"));
    }

    /// Checks `Debug` and `Display`.
    #[track_caller]
    pub(crate) fn display(&self, situation: &str, value: impl Debug + Display) {
        self.debug(situation, &value);
        self.assert_not_in(situation, &format!("{value}"));
        self.assert_not_in(situation, &format!("{value:#}"));
    }

    /// Checks an error and all its causes.
    #[track_caller]
    pub(crate) fn error(&self, situation: &str, error: &dyn Error) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.display(situation, error);
            next = error.source();
        }
    }

    /// Checks the message of a panic.
    #[track_caller]
    pub(crate) fn panic(&self, situation: &str, payload: &(dyn Any + Send)) {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        self.assert_not_in(situation, text.expect("a panic says something"));
    }

    /// Returns the text before a secret in `text`. Numbers may be on separate lines.
    fn find(&self, text: &str) -> Option<String> {
        let text = text.to_lowercase();
        let joined: String = text.split_whitespace().collect();
        self.spellings.iter().find_map(|spelling| {
            let mut texts = [&text, &joined].into_iter();
            let (before, _) = texts.find_map(|text| text.split_once(spelling))?;
            let skipped = before.chars().count().saturating_sub(SHOWN);
            Some(before.chars().skip(skipped).collect())
        })
    }
}

/// Returns the secret as text, as escaped text, as hexadecimal digits, and as lists of numbers.
fn spellings(secret: &[u8]) -> Vec<String> {
    let list = |show: fn(&u8) -> String| secret.iter().map(show).collect::<Vec<_>>();
    let mut spellings = vec![
        secret.escape_ascii().to_string(),
        list(|byte| format!("{byte:02x}")).concat(),
        list(|byte| format!("{byte:02x}")).join(","),
        list(|byte| format!("0x{byte:02x}")).join(","),
        // A `[` or a comma comes before the first number.
        list(|byte| format!(",{byte}")).concat(),
        format!("[{}", list(u8::to_string).join(",")),
    ];
    if let Ok(text) = str::from_utf8(secret) {
        spellings.push(text.to_owned());
        spellings.push(text.escape_debug().to_string());
    }
    spellings.iter().map(|text| text.to_lowercase()).collect()
}

#[test]
fn a_canary_is_found_however_it_is_spelled() {
    let mut secrets = Secrets::credentials();
    let token: Vec<u8> = (b'p'..).take(RANDOM).collect();
    secrets.token(&token);
    for secret in [CANARY.as_bytes(), &token, &token[RANDOM - PIECE..]] {
        let hex: String = secret.iter().map(|byte| format!("{byte:02X}")).collect();
        for shown in [
            format!("{secret:?}"),
            format!("{secret:#?}"),
            format!("{secret:02x?}"),
            format!("{secret:#04x?}"),
            format!("0x{hex}."),
            format!("\"{}\"", secret.escape_ascii()),
        ] {
            assert!(secrets.find(&shown).is_some(), "{}", &shown[..4]);
        }
    }
    assert_eq!(secrets.find("Token(7071.. owner)"), None);
}
