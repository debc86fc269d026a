//! The state that a connector keeps from one connection to the next.

use super::*;
use crate::config::TlsOptions;
use crate::driver::authority::Authority;
use crate::error::{TlsPart, TlsProblem};
use std::fs;

fn connector(ca: &str) -> Connector {
    let config = Config::builder()
        .node("rediss://h")
        .tls(TlsOptions::new().authorities_file(ca))
        .config()
        .unwrap();
    connectors(&config).unwrap().remove(0).unwrap()
}

#[test]
fn sessions_are_kept_for_an_hour_and_until_a_file_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    fs::write(&path, Authority::new("one").pem()).unwrap();
    let mut connector = connector(path.to_str().unwrap());
    let since = connector.sessions_since;
    let almost = Duration::from_secs(3599);
    // A store of sessions belongs to one value of `config`.
    let first = connector.terms().config;
    let same = |connector: &Connector, config| Arc::ptr_eq(&connector.terms.config, config);
    connector.refresh_at(since.saturating_add(almost)).unwrap();
    assert!(same(&connector, &first));
    let hour = since.saturating_add(SESSIONS_MAX);
    connector.refresh_at(hour).unwrap();
    assert!(!same(&connector, &first));

    let second = connector.terms().config;
    connector.refresh().unwrap();
    assert!(same(&connector, &second));
    fs::write(&path, Authority::new("two").pem()).unwrap();
    connector.refresh().unwrap();
    assert!(!same(&connector, &second));

    let third = connector.terms().config;
    fs::write(&path, "none").unwrap();
    let (part, problem) = (TlsPart::Authorities, TlsProblem::Empty);
    let empty = reason::of_setting(part, problem);
    assert_eq!(connector.refresh(), Err(empty));
    assert!(!same(&connector, &third));
}

#[test]
fn nothing_of_a_connector_is_shown_but_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca");
    fs::write(&path, Authority::new("one").pem()).unwrap();
    let shown = alloc::format!("{:?}", connector(path.to_str().unwrap()));
    assert_eq!(shown, "Tls(DnsName(\"h\"))");
}
