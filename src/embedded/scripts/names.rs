//! The scripts of locks on one name or several, without Lua.

use alloc::vec::Vec;

use crate::embedded::refusal::Refusal;
use crate::embedded::reply::{Answer, Reply};

use super::members;
use super::running::{NO_NUMBER, Running};

/// Does what [`SET_IF_PERMITTED`](crate::node::SET_IF_PERMITTED) does: returns 1 if the key was set, otherwise 0.
pub(super) fn acquire(run: &mut Running<'_>) -> Result<i64, Refusal> {
    let (key, token, ttl) = (run.key()?, run.word(0)?, run.word(1)?);
    run.set(key, token, &[b"nx", b"px", ttl]).map(i64::from)
}

impl Running<'_> {
    fn release(&mut self, key: &[u8], token: Option<&[u8]>) -> Result<i64, Refusal> {
        let held = self.holds(key, token)?;
        if held == 1 {
            self.database.remove(key);
        }
        Ok(held)
    }

    fn extend(
        &mut self,
        names: &[&[u8]],
        token: Option<&[u8]>,
        ttl: Option<&[u8]>,
    ) -> Result<i64, Refusal> {
        let held = self.all_hold(names, token)?;
        for key in names.iter().filter(|_| held == 1) {
            self.raise(key, ttl)?;
            self.register(key);
        }
        Ok(held)
    }

    fn confirm(&mut self, names: &[&[u8]]) -> Result<i64, Refusal> {
        let held = self.all_hold(names, self.token())?;
        if held != 1 {
            return Ok(held);
        }
        let left = names.iter().map(|key| self.above_left(key));
        Ok(left.min().unwrap_or(9_000_000_000_000_001))
    }
}

/// Does what [`RELEASE`](crate::node::RELEASE) does.
pub(super) fn release(run: &mut Running<'_>) -> Result<i64, Refusal> {
    run.release(run.key()?, run.token())
}

/// Does what [`RELEASE_EACH`](crate::node::RELEASE_EACH) does.
pub(super) fn release_each(run: &mut Running<'_>) -> Answer {
    let keys = run.keys.iter().enumerate();
    Ok(Reply::array(keys.map(|(at, key)| {
        let said = run.release(key, run.words.get(at).copied());
        said.map_or_else(Reply::Error, Reply::Integer)
    })))
}

/// Does what [`RELEASE_SEVERAL`](crate::node::RELEASE_SEVERAL) does.
pub(super) fn release_several(run: &mut Running<'_>) -> Answer {
    let (mut deleted, mut foreign) = (0, false);
    for key in run.keys {
        match run.release(key, run.token()) {
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

/// Does what [`EXTEND`](crate::node::EXTEND) does.
pub(super) fn extend(run: &mut Running<'_>) -> Result<i64, Refusal> {
    run.extend(&[run.key()?], run.token(), run.ttl())
}

/// Does what [`EXTEND_EACH`](crate::node::EXTEND_EACH) does.
pub(super) fn extend_each(run: &mut Running<'_>) -> Answer {
    let word = |place: usize| run.words.get(place).copied();
    let mut said = Vec::with_capacity(run.keys.len());
    for (at, key) in run.keys.iter().enumerate() {
        let (token, ttl) = (word(2 * at), word(2 * at + 1));
        said.push(match run.extend(&[key], token, ttl) {
            Ok(said) => Reply::Integer(said),
            Err(refusal) if refusal == NO_NUMBER => return Err(refusal), // No command was refused.
            Err(refusal) => Reply::Error(refusal),
        });
    }
    Ok(Reply::Array(said))
}

/// Does what [`EXTEND_SEVERAL`](crate::node::EXTEND_SEVERAL) does.
pub(super) fn extend_several(run: &mut Running<'_>) -> Answer {
    let said = run.extend(run.names(), run.token(), run.ttl())?;
    run.answer(said)
}

/// Does what [`CONFIRM`](crate::node::CONFIRM) does.
pub(super) fn confirm(run: &mut Running<'_>) -> Result<i64, Refusal> {
    run.confirm(&[run.key()?])
}

/// Does what [`CONFIRM_SEVERAL`](crate::node::CONFIRM_SEVERAL) does.
pub(super) fn confirm_several(run: &mut Running<'_>) -> Answer {
    let said = run.confirm(run.names())?;
    run.answer(said)
}

/// Does what [`TAKE_SEVERAL`](crate::node::TAKE_SEVERAL) does.
pub(super) fn take(run: &mut Running<'_>) -> Answer {
    let names = run.names();
    for (number, key) in (2..).zip(names) {
        // A key of another type belongs to another program.
        if !matches!(run.holds(key, run.token()), Ok(0 | 1)) {
            return run.answer(number);
        }
    }
    for key in names {
        let (token, ttl) = (run.word(0)?, run.word(1)?);
        if !run.set(key, token, &[b"nx", b"px", ttl])? {
            run.raise(key, Some(ttl))?;
        }
    }
    run.answer(1)
}

/// Does what [`OVERWRITE`](crate::node::OVERWRITE) does.
pub(super) fn overwrite(run: &mut Running<'_>) -> Answer {
    let (key, other) = (run.key()?, run.words.get(1).copied());
    let Some(value) = run.get(key)?.map(<[u8]>::to_vec) else {
        return Ok(Reply::Integer(0));
    };
    let is_known = [run.token(), other].contains(&Some(&value[..]));
    if !is_known || run.database.left(key) == Some(-1) {
        return Ok(Reply::Integer(-1));
    }
    let above = run.above_left(key);
    run.set(key, run.word(1)?, &[b"xx", b"keepttl"])?;
    Ok(Reply::Integer(above))
}

/// Does what [`INSPECT`](crate::node::INSPECT) does.
pub(super) fn inspect(run: &mut Running<'_>) -> Answer {
    let key = run.key()?;
    let (above, found) = match run.get(key) {
        Ok(None) => (0, Reply::bulk(b"")),
        Ok(Some(token)) => {
            let token = Reply::bulk(&token[..token.len().min(85)]);
            (run.above_left(key), token)
        }
        Err(refusal) => members::listed(run, key).ok_or(refusal)?,
    };
    let counts = match run.keys.len() {
        1 => 0,
        _ => run.counts(run.token(), 1)?,
    };
    let (above, counts) = (Reply::Integer(above), Reply::Integer(counts));
    Ok(Reply::array([above, counts, found]))
}
