
// ----- from here on: tests/breakages/broken.rs, in a copy of the tree only ------------------------

/// Returns `true` if a breakage with one of these names is switched on. In the long form, does or takes something else
/// in that case.
#[macro_export]
macro_rules! broken {
    ($($name:ident)|+) => {
        $($crate::guards::is_taken_out(const { $crate::guards::number(stringify!($name)) }))||+
    };
    ($name:ident => $act:expr) => {
        if $crate::broken!($name) {
            $act;
        }
    };
    ($name:ident => $instead:expr, else $usual:expr) => {
        if $crate::broken!($name) { $instead } else { $usual }
    };
}
