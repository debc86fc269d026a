//! Stories of valkey-server alone.

use crate::face::{Which, over};
use crate::servers::{Cluster, LONG, Options};

/// Locks also work on Valkey without its Lua module.
#[test]
fn locks_work_on_valkey_without_lua() {
    not_with!(
        Acl | NoScripts | Valkey81 | Valkey90,
        "needs +delifeq besides, and a server whose Lua is a module"
    );
    let options = Options::valkey().arguments(["--enable-module-command", "yes"]);
    let cluster = Cluster::with(3, &options);
    cluster.run("MODULE UNLOAD lua");
    for which in Which::BOTH {
        let key = which.key("no lua");
        let mut face = which.build(over(&cluster));
        let lock = face.try_lock(&key, LONG).expect("free");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}
