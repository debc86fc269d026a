//! Users without scripts, behind proxies that refuse in other words than the server.

use super::*;
use crate::servers::Mischief;

/// What the proxies say instead of `NOPERM`.
const FORBIDDEN: (&[u8], &[u8]) = (b"-NOPERM", b"-ERR no luck with scripts\r\n");

const ALL: &str = "~lock:* +set +get +pttl +pexpire +info +time +client|tracking +client|caching";

#[test]
fn locks_are_had_without_scripts_that_are_refused_in_any_words() {
    not_with!(Tls | NoScripts, "the words of the server are replaced");
    for (cluster, native) in clusters() {
        let transactions = " +watch +multi +exec";
        let delifeq = if native { " +delifeq" } else { "" };
        let proxies = cluster.proxies();
        let (said, instead) = FORBIDDEN;
        for proxy in &proxies {
            proxy.set(Mischief::Reword(said, instead));
        }
        // Servers that let the user load scripts still refuse to run the first one.
        let each = Which::BOTH.map(|which| ["", " +script"].map(|loads| (which, loads)));
        for (which, loads) in each.into_iter().flatten() {
            permit(&cluster, &[ALL, transactions, delifeq, loads].concat());
            let urls = proxies.iter().map(|proxy| proxy.url_with("some:secret"));
            let mut face = which.build(at(urls));
            let mut lock = face.lock("lock:a", LONG).expect("it can be released");
            face.extend(&mut lock, 2 * LONG).expect("held");
            face.confirm(&mut lock).expect("held");
            face.unlock(lock).expect("held");
            let both = face.try_lock_all(["lock:b", "lock:c"], LONG);
            face.unlock(both.expect("free")).expect("held");
            for key in ["lock:a", "lock:b", "lock:c"] {
                face.assert_gone(&cluster, key);
            }
            face.check().expect("locks can be had");
        }
        // The keys cannot be released either, and the report quotes the words about scripts.
        permit(&cluster, ALL);
        if releases_by_set(&cluster) {
            continue;
        }
        let urls = proxies.iter().map(|proxy| proxy.url_with("some:secret"));
        let mut face = Which::Shared.build(at(urls));
        let report = no_quorum(face.try_lock("lock:a", LONG));
        let text = report.to_string();
        assert!(
            text.contains("refused: ERR (no luck with scripts)"),
            "{text}"
        );
        cluster.assert_empty();
    }
}
