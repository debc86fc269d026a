//! The scripts of shared locks and permits with a fencing token.
//!
//! These scripts do the same as the scripts in [`shared`](super::shared) and [`permit`](super::permit), and also raise
//! the counter of the name as in [`fencing`](super::fencing). All slots of a name share one counter, so a permit keeps
//! its number when it moves to another slot. Successive holders of a slot get growing numbers, as for a plain lock.
//!
//! The keys are the name, the counter, the floor, the intent of a shared lock, and, if a marker is checked, the keys of
//! the marker and the barrier. The arguments are the token, the ttl, the marker, a number, the life of a counter in
//! milliseconds, the `run_id`, and then the arguments of the corresponding script without a number.

use super::Script;
use super::fencing::{lift_floor, read_counter, read_floor};
use super::permit::add_holder;
use super::shared::{
    add_reader, end_unless_all_permitted, is_time, kind_of_member, read_arguments, read_time,
    read_what_is_over, said_and_whether_it_counts, whether_it_counts, write_member,
};

/// Puts the next number into `D` (as text) and `S`. If this number needs a higher floor, puts the new floor into `L`.
/// Ends the script if the floor is not usable, or if no larger number exists.
macro_rules! choose_number {
    () => {
        concat!(
            "local A,f,D,S,L=ARGV,KEYS[3] do ",
            read_floor!(),
            "if not r then return {-1,0,0} end local p,w=A[4]+0,call('time') \
             local s=(w[1]+1)*1000000 if p>s then s=s+w[2] end if p<s then s=p end ",
            read_counter!("KEYS[2]"),
            "if k>=s then s=k+1 end if s>9e15 then return {-1,0,1} end \
             D,S=s==p and A[4] or string.format('%.0f',s),s if s>x then L=r..':'..o..':'..D end end "
        )
    };
}

/// Raises the counter and the floor to the chosen number.
macro_rules! raise_to_it {
    () => {
        "if L then call('set',f,L) end call('set',KEYS[2],D,'px',A[5]) "
    };
}

/// Does the same as [`TAKE_SHARED`](super::TAKE_SHARED), and raises the counter. Answers with three integers:
///
/// ```text
/// {1, b, number}   taken
/// {2, b, 0}        the key belongs to another client
/// {2 + m, b, 0}    a caller that wants the exclusive lock keeps readers out for m milliseconds
/// {-1, 0, 0}       the floor is missing or belongs to another run_id
/// {-1, 0, 1}       there is no larger number
/// ```
///
/// The integer `b` says whether the answer counts. A single number of `-5` or less means that one of the commands is
/// forbidden to the user. The script does nothing unless it takes the lock.
pub(crate) const TAKE_SHARED_FENCED: Script = Script {
    text: concat!(
        read_arguments!(),
        end_unless_all_permitted!("8", "3-i"),
        choose_number!(),
        kind_of_member!(),
        add_reader!("KEYS[4]", "ARGV[7]", raise_to_it!()),
        whether_it_counts!(),
        "return {s,b,s==1 and S or 0}"
    ),
    sha1: "c6c967feb928242bdee272fbdf9aa2444b405c72",
};

/// Does the same as [`TAKE_SLOT`](super::TAKE_SLOT), and raises the counter. Answers with four integers: the integers
/// of `TAKE_SLOT`, and the number, which is 0 unless a slot was taken. If the script cannot choose a number, it answers
/// as [`TAKE_SHARED_FENCED`] does.
pub(crate) const TAKE_SLOT_FENCED: Script = Script {
    text: concat!(
        read_arguments!(),
        end_unless_all_permitted!("10", "5-i"),
        choose_number!(),
        kind_of_member!(),
        add_holder!("ARGV[7]", "ARGV[8]", "ARGV[9]", raise_to_it!()),
        whether_it_counts!(),
        "return {s,b,r,s==1 and S or 0}"
    ),
    sha1: "2e339c5161596cf90229882a1c6d423de4477115",
};

/// Raises the counter and the floor to at least the given number, if the member is live. Answers `1` if the counter and
/// the floor were raised. Otherwise the script changes nothing and answers `0`. The answer is `0` if the member does
/// not exist or has expired, or if the floor is not usable. The ttl argument is empty, and the last argument is the
/// prefix of the member.
pub(crate) const RAISE_MEMBER: Script = Script {
    text: concat!(
        read_arguments!(),
        read_time!(),
        "local A,f,y,v=ARGV,KEYS[3],0,call('zscore',k,ARGV[7]..t) \
         if v and v+0>=n then ",
        read_floor!(),
        "if r then y=1 local d,s=A[4],A[4]+0 ",
        lift_floor!(),
        read_counter!("KEYS[2]"),
        "if k<s then call('set',KEYS[2],d,'px',A[5]) end end end local s=y ",
        said_and_whether_it_counts!()
    ),
    sha1: "4790cec0467fde4292496873476bdd52f2052633",
};
