//! The first minute of a new user is as `docs/start.md` says.

use std::process::Command;

use super::{PATIENT, shearline};
use crate::servers;

const PAGE: &str = include_str!("../../../../docs/start.md");
const COMPOSE: &str = include_str!("../../../../docs/compose.yaml");
const NODES: &str =
    "SHEARLINE_NODES=redis://127.0.0.1:6371,redis://127.0.0.1:6372,redis://127.0.0.1:6373";

/// Returns the shell block of the page that contains this text.
fn block(with: &str) -> &'static str {
    let blocks = PAGE.split("```sh\n").skip(1);
    let mut blocks = blocks.map(|rest| rest.split_once("```").expect("its end").0);
    blocks
        .find(|block| block.contains(with))
        .expect("a block for a shell")
}

#[test]
fn new_servers_give_a_lock_after_an_operator_has_trusted_them() {
    let cluster = servers::three();
    let refused = shearline(&cluster, "run -w 1s first -- true").failed(69);
    assert!(refused.contains("it may have forgotten locks"), "{refused}");
    let script = block("--trust");
    assert!(script.contains(NODES), "{script}");
    let ours = format!("SHEARLINE_NODES={}", cluster.urls().join(","));
    let tool = format!("{} run --config {PATIENT}", env!("CARGO_BIN_EXE_shearline"));
    let script = script.replace(NODES, &ours).replace("shearline run", &tool);
    let output = Command::new("sh")
        .args(["-ec", &script])
        .output()
        .expect("a shell");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said, "the nodes can be locked\n", "{:?}", output.stderr);
}

/// The nodes have the settings of `docs/operating.md`, and the addresses of the page.
#[test]
fn the_compose_file_has_the_three_nodes_of_the_page() {
    let operating = include_str!("../../../../docs/operating.md");
    let (_, settings) = operating.split_once("```text\n").expect("the settings");
    let (settings, _) = settings.split_once("```").expect("their end");
    assert_eq!(settings.lines().count(), 3);
    for setting in settings.lines() {
        assert!(COMPOSE.contains(&format!("--{setting}")), "{setting}");
    }
    for port in [6371, 6372, 6373] {
        assert!(
            COMPOSE.contains(&format!("127.0.0.1:{port}:6379")),
            "{port}"
        );
    }
    assert_eq!(COMPOSE.matches("<<: *node").count(), 3);
}
