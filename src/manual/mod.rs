// The modules show the pages of `docs/`, which GitHub shows too. In `docs/`, a link leads to a file: `[waiting]:
// waiting.md`. In these modules, `links.md` precedes each page and defines the same links again, to modules and items.
// In Markdown the first definition of a link counts. `docs/pictures.py` writes the pictures into `pictures.md`.
#![doc = include_str!("links.md")]
#![doc = include_str!("pictures.md")]
#![doc = include_str!("../../docs/README.md")]

/// Each page is a module.
macro_rules! pages {
    ($($page:ident)*) => {
        $(
            #[doc = include_str!("links.md")]
            #[doc = include_str!("pictures.md")]
            #[doc = include_str!(concat!("../../docs/", stringify!($page), ".md"))]
            pub mod $page {}
        )*
    };
}

pages! {
    start choosing recipes coming_from
    operating troubles
    defaults outcomes permissions hosted command tls tracing glossary
    algorithm guarantees safety fencing waiting keeping holders elections
}
