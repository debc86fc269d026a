//! The scripts for locks on one or several names, implemented without Lua.

use crate::embedded::call::Call;
use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};

use super::members;

/// Implements the script [`SET_IF_PERMITTED`](crate::node::SET_IF_PERMITTED). Returns 1 if the key was set,
/// otherwise 0.
pub(super) fn acquire(run: &mut Call<'_>) -> Result<i64, Refusal> {
    let set = run.set(run.key(), run.words[0], &[b"nx", b"px", run.words[1]])?;
    Ok(i64::from(set))
}

impl Call<'_> {
    fn release(&mut self, key: &[u8], token: &[u8]) -> Result<i64, Refusal> {
        let held = self.holds(key, token)?;
        if held == 1 {
            self.remove(key);
        }
        Ok(held)
    }

    fn extend(&mut self, names: &[&[u8]], token: &[u8], ttl: &[u8]) -> Result<i64, Refusal> {
        let held = self.all_hold(names, token)?;
        for key in names.iter().filter(|_| held == 1) {
            self.raise(key, ttl)?;
            self.register(key);
        }
        Ok(held)
    }

    fn confirm(&mut self, names: &[&[u8]]) -> Result<i64, Refusal> {
        let held = self.all_hold(names, self.words[0])?;
        if held != 1 {
            return Ok(held);
        }
        let left = names.iter().map(|key| self.above_left(key));
        Ok(left.min().unwrap_or(9_000_000_000_000_001))
    }
}

/// Implements the script [`RELEASE`](crate::node::RELEASE).
pub(super) fn release(run: &mut Call<'_>) -> Result<i64, Refusal> {
    run.release(run.key(), run.words[0])
}

/// Implements the script [`RELEASE_EACH`](crate::node::RELEASE_EACH).
pub(super) fn release_each(run: &mut Call<'_>) -> Answer {
    let each = run.keys.iter().zip(run.words);
    Ok(Reply::array(each.map(|(key, token)| {
        let said = run.release(key, token);
        said.map_or_else(Reply::Error, Reply::Integer)
    })))
}

/// Implements the script [`RELEASE_SEVERAL`](crate::node::RELEASE_SEVERAL).
pub(super) fn release_several(run: &mut Call<'_>) -> Answer {
    let (mut deleted, mut foreign) = (0, false);
    for key in run.keys {
        match run.release(key, run.words[0]) {
            Ok(0) => {}
            Ok(1) => deleted += 1,
            Ok(_) | Err(_) => foreign = true, // No other error is possible here.
        }
    }
    let said = match foreign {
        _ if deleted == run.keys.len() => 1,
        true => -1,
        false => 0,
    };
    Ok(Reply::Integer(said))
}

/// Implements the script [`EXTEND`](crate::node::EXTEND).
pub(super) fn extend(run: &mut Call<'_>) -> Result<i64, Refusal> {
    run.extend(&[run.key()], run.words[0], run.words[1])
}

/// Implements the script [`EXTEND_EACH`](crate::node::EXTEND_EACH).
pub(super) fn extend_each(run: &mut Call<'_>) -> Answer {
    let each = run.keys.iter().zip(run.words.chunks_exact(2));
    Ok(Reply::array(each.map(|(key, words)| {
        let said = run.extend(&[key], words[0], words[1]);
        said.map_or_else(Reply::Error, Reply::Integer)
    })))
}

/// Implements the script [`EXTEND_SEVERAL`](crate::node::EXTEND_SEVERAL).
pub(super) fn extend_several(run: &mut Call<'_>) -> Answer {
    let said = run.extend(run.names(), run.words[0], run.words[1])?;
    run.answer(said)
}

/// Implements the script [`CONFIRM`](crate::node::CONFIRM).
pub(super) fn confirm(run: &mut Call<'_>) -> Result<i64, Refusal> {
    run.confirm(&[run.key()])
}

/// Implements the script [`CONFIRM_SEVERAL`](crate::node::CONFIRM_SEVERAL).
pub(super) fn confirm_several(run: &mut Call<'_>) -> Answer {
    let said = run.confirm(run.names())?;
    run.answer(said)
}

/// Implements the script [`TAKE_SEVERAL`](crate::node::TAKE_SEVERAL).
pub(super) fn take(run: &mut Call<'_>) -> Answer {
    let (names, token, ttl) = (run.names(), run.words[0], run.words[1]);
    for (number, key) in (2..).zip(names) {
        // A key of another type belongs to another program, so the script does not touch it.
        if !matches!(run.holds(key, token), Ok(0 | 1)) {
            return run.answer(number);
        }
    }
    for key in names {
        if !run.set(key, token, &[b"nx", b"px", ttl])? {
            run.raise(key, ttl)?;
        }
    }
    run.answer(1)
}

/// Implements the script [`OVERWRITE`](crate::node::OVERWRITE).
pub(super) fn overwrite(run: &mut Call<'_>) -> Answer {
    let (key, token, other) = (run.key(), run.words[0], run.words[1]);
    let value = run.get(key)?;
    let said = match value.map(|value| value == token || value == other) {
        None => 0,
        Some(true) if run.left(key) != Some(-1) => {
            let above = run.above_left(key);
            run.set(key, other, &[b"xx", b"keepttl"])?;
            above
        }
        Some(_) => -1,
    };
    Ok(Reply::Integer(said))
}

/// Implements the script [`INSPECT`](crate::node::INSPECT).
pub(super) fn inspect(run: &mut Call<'_>) -> Answer {
    let key = run.key();
    let (above, found) = match run.get(key) {
        Ok(None) => (0, Reply::bulk(b"")),
        Ok(Some(token)) => {
            let token = Reply::bulk(&token[..token.len().min(85)]);
            (run.above_left(key), token)
        }
        Err(refusal) => members::listed(run, key).ok_or(refusal)?,
    };
    let counts = match run.keys.get(1).and(run.words.first()) {
        None => 0,
        Some(marker) => run.counts(marker)?,
    };
    let (above, counts) = (Reply::Integer(above), Reply::Integer(counts));
    Ok(Reply::array([above, counts, found]))
}
