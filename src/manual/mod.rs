// The pages of `docs/`, which a forge shows too. There a link leads to a file: `[waiting]: waiting.md`. Here `links.md`
// comes before each page and defines the same links again, to modules and items. The first definition of a link counts.
// The pictures are in `pictures.md`, which `docs/pictures.py` writes.
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
