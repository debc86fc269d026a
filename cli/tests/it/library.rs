//! The helpers of the library's tests for servers, which these tests share.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the tests of the library use the rest"
)]

#[macro_use]
#[path = "../../../tests/it/variants.rs"]
pub(crate) mod variants;

#[path = "../../../tests/it/acl.rs"]
pub(crate) mod acl;
#[path = "../../../tests/it/canary.rs"]
pub(crate) mod canary;
#[path = "../../../tests/it/effort.rs"]
pub(crate) mod effort;
#[path = "../../../tests/it/executor.rs"]
pub(crate) mod executor;
#[path = "../../../tests/it/face.rs"]
pub(crate) mod face;
#[path = "../../../tests/it/namespaces.rs"]
pub(crate) mod namespaces;
#[path = "../../../tests/it/parts.rs"]
pub(crate) mod parts;
#[path = "../../../tests/it/servers/mod.rs"]
pub(crate) mod servers;
