
// ----- from here on: tests/breakages/broken.rs, in a copy of the tree only ------------------------

/// Whether what has one of these names is broken; and then what is done, or taken, instead.
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
