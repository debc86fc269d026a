//! The script that prepares a node for the strict guard, implemented without Lua.

use alloc::format;
use alloc::vec::Vec;

use crate::embedded::call::Call;
use crate::embedded::reply::{Answer, Reply};

use super::steps::{TOO_FEW, barrier_left, is_digits, lua_number};

/// Implements the script [`JOIN`](crate::node::JOIN) for a node that has no replica and was never a replica.
pub(super) fn join(run: &mut Call<'_>) -> Answer {
    let (&[marker_key, barrier_key], &[run_id, _, nodes, quorum, group, durable, _, mode]) =
        (run.keys, run.words)
    else {
        return Err(TOO_FEW);
    };
    let marker = run.get(marker_key)?.map(<[u8]>::to_vec);
    let barrier = run.pttl(barrier_key);
    let mut left = barrier_left(barrier);
    let (own, span) = (run.number(1)?, run.number(6)?);
    let reinit = mode == b"anew";
    let (mut told, mut longest, mut lost, mut kept) = (own, own, true, durable == b"1");
    if let Some(marker) = &marker {
        let old = read_marker(marker);
        let same = old.is_some_and(|[_, _, n, q, _, c]| [n, q, c] == [nodes, quorum, group]);
        if !same && !reinit {
            return joined(0, left, marker);
        }
        let old_ttl = old.and_then(|[_, ttl, ..]| lua_number(ttl));
        let old_ttl = old_ttl.unwrap_or_default();
        longest = own.max(old_ttl);
        if let Some([old_run_id, _, _, _, was_durable, _]) = old.filter(|_| !reinit) {
            let was_durable = was_durable == b"1";
            if old_run_id == run_id {
                lost = own > old_ttl;
                kept = was_durable && durable != b"0";
            } else {
                lost = own > old_ttl || !was_durable || !kept;
            }
            told = longest;
        }
    }
    let told = format!("{told:.0}");
    let kept = if kept { b"1" } else { b"0" };
    let words = [b"1", run_id, told.as_bytes(), nodes, quorum, kept, group];
    let text = words.join(&b' ');
    if mode == b"trust" {
        run.remove(barrier_key);
        left = 0;
    } else if lost {
        let bar = (span * longest / own).ceil() as i64;
        if barrier != Some(-1) && bar > left {
            let end = run.now.saturating_add(bar);
            run.insert(barrier_key, b"1", Some(end));
            left = bar;
        }
    }
    if marker.as_ref() != Some(&text) {
        run.insert(marker_key, &text, None);
    }
    joined(1, left, &text)
}

fn joined(verdict: i64, left: i64, marker: &[u8]) -> Answer {
    let (verdict, left) = (Reply::Integer(verdict), Reply::Integer(left));
    Ok(Reply::array([verdict, left, Reply::bulk(marker)]))
}

/// Returns the parts that the pattern of the script finds in a marker: the `run_id`, the longest ttl, the number of
/// nodes, the size of a quorum, whether the server is durable, and the name of the group.
fn read_marker(text: &[u8]) -> Option<[&[u8]; 6]> {
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let &[b"1", run_id, ttl, nodes, quorum, durable, group] = words.as_slice() else {
        return None;
    };
    let is_text = |text: &[u8]| !text.is_empty() && !text.iter().any(u8::is_ascii_whitespace);
    let is_ours = [ttl, nodes, quorum].into_iter().all(is_digits)
        && [run_id, group].into_iter().all(is_text)
        && (durable == b"0" || durable == b"1");
    is_ours.then_some([run_id, ttl, nodes, quorum, durable, group])
}
