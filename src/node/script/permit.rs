//! The scripts of permits.
//!
//! A permit is one of K slots, and each slot has at most one holder, like a lock. The holders are members of the same
//! sorted set as the holders of [shared locks](super::shared). The module of shared locks also describes the answers,
//! the members and the other scripts. All permits in a set have the same K, and no slot has two live members.

use super::Script;
use super::shared::{
    end_unless_all_permitted, kind_of_member, read_arguments, read_time, read_what_is_over,
    said_and_whether_it_counts, whether_it_counts, write_member,
};

/// Takes a slot, and puts the first and the last number of the answer into `s` and `r`: see [`TAKE_SLOT`]. `$all` is
/// the number of permits, `$start` the first slot to try, and `$tries` the number of slots to try. `$before` runs
/// before the first write.
macro_rules! add_holder {
    ($all:literal, $start:literal, $tries:literal, $before:expr) => {
        concat!(
            "local K,s,r,l=",
            $all,
            ",2,0,redis.pcall('zrange',k,-1,-1,'withscores') \
             if l.err then \
             if not string.find(l.err,'WRONGTYPE',1,true) then l=call('zrange',k,-1,-1,'withscores') end \
             else ",
            read_time!(),
            "local N,j,x,y,z,u,m=K+0,",
            $start,
            "+0,0,true,{},{} if l[1] then x=l[2]+0 y=o(l[1]) if y then ",
            read_what_is_over!(),
            "end if y and x>=n then y=x%1==0 and x<=9e15 and o(l[1]) \
             if y and y~=K then y=false if o(l[1])~='r' then s,r=3,o(l[1])+0 end end end \
             if y then local f,q,v=string.match,string.find,call('zrange',k,n,'inf','byscore') \
             for i=1,#v do local a=v[i] local e=f(a,'^%d+',#K+2) or -1 u[e+0]=true \
             if q(a,t,-#t,true) and a==K..'/'..e..'/'..t then m,r=a,e+0 end end \
             if not m and #v>=N then y,r=false,call('zscore',k,v[1])-n+1 end end end \
             if y and not m then for i=j,j+",
            $tries,
            "-1 do if not u[i%N] then r=i%N m=K..'/'..r..'/'..t break end end \
             if not m then \
             y,r=false,call('zrange',k,n,'inf','byscore','limit',0,1,'withscores')[2]-n+1 end end \
             if y then s=1 ",
            $before,
            write_member!(),
            "end end "
        )
    };
}
pub(super) use add_holder;

/// Takes the first free slot. The search begins at the given slot, and wraps around after the last slot. Answers with
/// three integers:
///
/// ```text
/// {1, b, slot}   taken, or the token has this slot already; then it gets at least this ttl
/// {2, b, ms}     all slots are taken; ms is the time until the first of them ends, plus one
/// {2, b, 0}      the key belongs to another client
/// {3, b, K}      the number of permits is K
/// ```
///
/// The integer `b` says whether the answer counts. A single number of `-5` or less means that one of the commands is
/// forbidden to the user. The script does nothing unless it takes a slot. Without a ttl the script only checks the
/// permissions.
///
/// The arguments after the marker are K, the first slot to try, the number of slots to try, and the commands to check.
pub(crate) const TAKE_SLOT: Script = Script {
    text: concat!(
        read_arguments!(),
        end_unless_all_permitted!("7", "2-i"),
        kind_of_member!(),
        add_holder!("ARGV[4]", "ARGV[5]", "ARGV[6]", ""),
        whether_it_counts!(),
        "return {s,b,r}"
    ),
    sha1: "0e20e6e079c90657ec0ec1a87c5423f926375279",
};

/// Moves the token to another slot if that slot is free, and keeps the deadline. The script also removes an expired
/// member from the new slot. If an expired member stayed in the slot, it could become live again when the clock is set
/// back. Answers `1` if the token has the new slot, `0` if the token has no slot or has expired, and `-1` if another
/// client has the new slot. The ttl argument is empty, and the fourth argument is the prefix of the member in the new
/// slot.
pub(crate) const MOVE_SLOT: Script = Script {
    text: concat!(
        read_arguments!(),
        read_time!(),
        "local s,p,f,q,m,h=0,ARGV[4],string.find,string.sub \
         for _,a in ipairs(call('zrange',k,n,'inf','byscore')) do \
         if q(a,1,#p)==p then h=a end \
         if f(a,t,-#t,true) then \
         local _,e=f(a,'^%d+/%d+/') if e and q(a,e+1)==t then m=a end end end \
         if m then if m==p..t then s=1 elseif h then s=-1 \
         else s=1 for _,a in ipairs(call('zrange',k,'-inf','('..n,'byscore')) do \
         if q(a,1,#p)==p then call('zrem',k,a) end end \
         call('zadd',k,call('zscore',k,m),p..t) call('zrem',k,m) end end ",
        said_and_whether_it_counts!()
    ),
    sha1: "d33732f39271955630f105faee3b483a80319059",
};
