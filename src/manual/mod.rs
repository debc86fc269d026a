// The pages of `docs/`, which a forge shows too. A link there names its target as files do: `[waiting]: waiting.md`.
// Here `links.md` stands before each page, and of two definitions the first counts: the same link leads to a module or
// an item. The pictures stand in `pictures.md`, which `docs/pictures.py` writes.
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
