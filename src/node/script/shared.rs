//! The scripts of a shared lock. Permits use some of these scripts too.
//!
//! The holders are members of a sorted set under the name of the lock. A member consists of a prefix, which shows the
//! kind of the holder, and the token. The score of a member is its deadline, in milliseconds of the server's clock.
//!
//! ```text
//! r/TOKEN         a reader: it holds a shared lock
//! K/SLOT/TOKEN    it holds the slot SLOT of K permits: see `permit`
//! ```
//!
//! * Like a key, a member is live up to and including the millisecond of its deadline. After its deadline, a member has
//!   expired and does not count.
//! * The key expires at the latest deadline of its members. A script never removes another client's live member, and
//!   never makes its deadline earlier.
//! * A set that this library did not write counts as a key of another client, and is never changed. A set belongs to
//!   another program if its last deadline is not a whole number of at most 9e15, or if its last member or an expired
//!   member has another form. So the scripts read each expired member before they remove it. The scripts check the last
//!   member first, because a set of another program may be large.
//!
//! The keys are the name, and, if a marker is checked, the keys of the [marker](super::super::trust::marker) and the
//! barrier. The arguments are the token, the ttl, and the marker, which is empty if no marker is checked. The answers
//! have the same form as for a plain lock, with and without the marker check. All scripts of shared locks are sent as
//! text.

use super::Script;

/// Puts the name into `k`, the token into `t`, and the marker into `g`.
macro_rules! read_arguments {
    () => {
        "local call,k,t,g=redis.call,KEYS[1],ARGV[1],ARGV[3] "
    };
}

/// Checks the permissions for the commands from `ARGV[$first]` on. If `ARGV[i]` is forbidden, ends the script with the
/// expression `$refused`. If the ttl is empty, ends the script with 0, because the caller only asked for the
/// permissions.
macro_rules! end_unless_all_permitted {
    ($first:literal, $refused:literal) => {
        concat!(
            "local c=redis.acl_check_cmd if c then for i=",
            $first,
            ",#ARGV do local a,y=ARGV[i] \
             if a=='time' then y=c(a) elseif a=='get' then y=c(a,k) elseif a=='zadd' or a=='zrange' then y=c(a,k,k,k) else y=c(a,k,k) end \
             if not y then return ",
            $refused,
            " end end end if ARGV[2]=='' then return 0 end "
        )
    };
}

/// Puts the server's time in milliseconds into `n`.
macro_rules! read_time {
    () => {
        "local w=call('time') local n=w[1]*1000+(w[2]-w[2]%1000)/1000 "
    };
}

/// Defines `o`, which returns the kind of a member. The kind is `r` for a reader, `K` for a permit, and nil for any
/// other form.
macro_rules! kind_of_member {
    () => {
        "local function o(m) if string.sub(m,1,2)=='r/' then return 'r' end \
         local p,s=string.match(m,'^([1-9]%d*)/(%d+)/') \
         if p and p+0<1025 and s+0<p+0 and not string.find(s,'^0.') then return p end end "
    };
}

/// Puts the expired members into `z`, and sets `y` to false if one of them has another form.
macro_rules! read_what_is_over {
    () => {
        "z=call('zrange',k,'-inf','('..n,'byscore') for i=1,#z do y=y and o(z[i]) end "
    };
}

/// Puts the deadline of the member `m` into `v`. If the lock was exclusive until now, the key contains only the token.
/// The script then turns the key into a set with this member and the same deadline.
macro_rules! read_deadline {
    () => {
        "local v=redis.pcall('zscore',k,m) if type(v)=='table' then \
         if redis.pcall('get',k)~=t then v=call('zscore',k,m) else \
         v=call('pttl',k) if v<0 then v=9e15 else v=math.min(n+v,9e15) end \
         call('del',k) call('zadd',k,v,m) call('pexpireat',k,v) call('zscore',k,m) end end "
    };
}

/// Sets `b` to the result of the marker check, or to 0 if no marker is checked.
macro_rules! whether_it_counts {
    () => {
        "local b=0 if g~='' then \
         local m=redis.pcall('get',KEYS[#KEYS-1]) b=call('pttl',KEYS[#KEYS]) \
         if m~=g then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end end "
    };
}

/// Ends a script with its answer `s`. If the script checks a marker, it also returns whether the answer counts.
macro_rules! said_and_whether_it_counts {
    () => {
        concat!(
            "if g=='' then return s end ",
            whether_it_counts!(),
            "return {s,b}"
        )
    };
}

/// A condition that is true if `v`, the text of an intent, is a time.
macro_rules! is_time {
    () => {
        "type(v)=='string' and #v<17 and string.find(v,'^%d+$') "
    };
}

/// Adds a reader, and puts the answer into `s`: see [`TAKE_SHARED`]. `$intent` is the key of the intent, `$passes` is
/// the argument that lets a reader join despite the intent, and `$before` runs before the first write.
///
/// For the ages at which an intent blocks readers, see [`keeps_out`].
macro_rules! add_reader {
    ($intent:literal, $passes:literal, $before:expr) => {
        concat!(
            "local m,s,l='r/'..t,2,redis.pcall('zrange',k,-1,-1,'withscores') \
             if l.err then \
             if not string.find(l.err,'WRONGTYPE',1,true) then l=call('zrange',k,-1,-1,'withscores') end \
             else ",
            read_time!(),
            "local x,y,z=0,true,{} \
             if l[1] then x=l[2]+0 y=o(l[1]) if y and x>=n then y=y=='r' and x%1==0 and x<=9e15 end if y then ",
            read_what_is_over!(),
            "end end if y and ",
            $passes,
            "=='' then local v=redis.pcall('get',",
            $intent,
            ") if v then local a,f=0,2200 if ",
            is_time!(),
            "then a=n-v end while f+250<=a do f=f*2 end \
             if a<f then local u,p=f-a,redis.pcall('pttl',",
            $intent,
            ") if type(p)=='number' and p>=0 and p<u then u=p+1 end \
             s,y=2+u,call('zscore',k,m) end end end if y then s=1 ",
            $before,
            write_member!(),
            "end end "
        )
    };
}

/// Adds the live member `m`, or raises its deadline. `x` is the last deadline in the set.
macro_rules! write_member {
    () => {
        "for i=1,#z do call('zrem',k,z[i]) end \
         local d=math.min(n+ARGV[2],9e15) call('zadd',k,'gt',d,m) call('pexpireat',k,math.max(d,x)) "
    };
}
pub(super) use {
    add_reader, end_unless_all_permitted, is_time, kind_of_member, read_arguments, read_time,
    read_what_is_over, said_and_whether_it_counts, whether_it_counts, write_member,
};

/// Adds a reader. A reader that is already a member keeps the lock for at least this ttl. Answers `1` if the reader has
/// the lock, and `2` if the key belongs to another client. An answer of `3` or more means that a caller waits for the
/// exclusive lock. The answer minus two is the number of milliseconds for which the intent of this caller still blocks
/// readers. An answer of `-5` or less means that one of the commands after the fourth argument is forbidden to the
/// user. For the first of these commands, the answer is `-5`. The script does nothing unless it takes the lock. Without
/// a ttl the script only checks the permissions.
///
/// The second key is the intent of the waiting caller: see [`LEAVE_INTENT`]. The intent does not block the reader if
/// the fourth argument is not empty, or if the reader is already a member. The further arguments are the commands to
/// check.
pub(crate) const TAKE_SHARED: Script = Script {
    text: concat!(
        read_arguments!(),
        end_unless_all_permitted!("5", "-i"),
        kind_of_member!(),
        add_reader!("KEYS[2]", "ARGV[4]", ""),
        said_and_whether_it_counts!()
    ),
    sha1: "f45d89ed74f88a152c75c82af8d6b4cbb2bec3f3",
};

/// Records the intent of a caller that waits for the exclusive lock. The intent contains the time when the wait began.
/// The two arguments, both in milliseconds, are how long the caller has waited by its own clock, and how long the
/// intent lasts. If the intent already contains an earlier time, that time stays, so the caller that has waited longest
/// counts.
pub(crate) const LEAVE_INTENT: Script = Script {
    text: concat!(
        "local k,w=KEYS[1],redis.call('time') local b=w[1]*1000+(w[2]-w[2]%1000)/1000-ARGV[1] \
         local v=redis.pcall('get',k) if ",
        is_time!(),
        "then b=math.min(b,v+0) end redis.call('set',k,b,'px',ARGV[2]) return 1"
    ),
    sha1: "b9f2a5ec3602e45fca5f8734263214709075812d",
};

/// The length of a window in which readers may join despite an intent, in milliseconds.
const WINDOW: u64 = 250;

/// The age of an intent at which the first window begins, in milliseconds. At this age, readers that hold their locks
/// for less than two seconds have released them. Each later window begins at twice the age of the previous one.
/// Eventually, the gap between two windows exceeds the time for which any reader holds its lock.
const FIRST_WINDOW: u64 = 2_200;

/// Returns how many milliseconds longer an intent of this age blocks readers. Despite an intent, readers may join in
/// windows of the length [`WINDOW`].
pub(crate) fn keeps_out(age: u64) -> u64 {
    let mut window = FIRST_WINDOW;
    while window.saturating_add(WINDOW) <= age {
        window = window.saturating_mul(2);
    }
    window.saturating_sub(age)
}

/// Raises the deadline of a member: see also `read_deadline`. Answers `1` if the member now lives at least that long,
/// `0` if it does not exist or has expired, and `-1` if this library did not write the set. The fourth argument is the
/// prefix of the member.
///
/// After its own write, the script reads the key again, as [`EXTEND`](super::EXTEND) does.
pub(crate) const EXTEND_MEMBER: Script = Script {
    text: concat!(
        read_arguments!(),
        kind_of_member!(),
        read_time!(),
        "local m,s=ARGV[4]..t,0 ",
        read_deadline!(),
        "if v and v+0>=n then s=1 \
         local l,d=call('zrange',k,-1,-1,'withscores'),math.min(n+ARGV[2],9e15) local x=l[2]+0 \
         if not o(l[1]) or x%1~=0 or x>9e15 then s=-1 \
         else local p=call('pttl',k) if d>v+0 or p>=0 and n+p<d then \
         call('zadd',k,'gt',d,m) call('pexpireat',k,math.max(d,x)) call('zscore',k,m) end end end ",
        said_and_whether_it_counts!()
    ),
    sha1: "2232429a27c2f1f899a40db44187bcd51653bdd3",
};

/// Answers how much longer a member and its key live, in the form of [`CONFIRM`](super::CONFIRM): see also
/// `read_deadline`. Answers `0` if the member does not exist or has expired. The ttl argument is empty, and the fourth
/// argument is the prefix of the member.
pub(crate) const CONFIRM_MEMBER: Script = Script {
    text: concat!(
        read_arguments!(),
        read_time!(),
        "local m,s=ARGV[4]..t,0 ",
        read_deadline!(),
        "if v and v+0>=n then local p=call('pttl',k) if p<0 then p=9e15 end s=math.min(v-n,p,9e15)+1 end ",
        said_and_whether_it_counts!()
    ),
    sha1: "2e379200fcd56c443c354f48849e7202d0792549",
};

/// Removes a member, or removes the key if it contains only the token. If no live member is left, removes the key.
/// Otherwise, the key expires at the latest deadline of the remaining members. Answers `1` if the member was removed,
/// and `0` if it did not exist or had expired.
///
/// The arguments are the token and the prefix. If the token's permit is in another slot than the prefix says, the
/// script also finds the permit there. With a third argument, the script only removes the permit from other slots. A
/// node may run this script late, so the script must not remove the token from the slot that the permit has by then.
pub(crate) const RELEASE_MEMBER: Script = Script {
    text: concat!(
        "local call,k,t=redis.call,KEYS[1],ARGV[1] local m=ARGV[2]..t local v=redis.pcall('zscore',k,m) \
         if type(v)=='table' then if redis.pcall('get',k)==t then return call('del',k) end v=call('zscore',k,m) end \
         if v and ARGV[3] then return 0 end if not v and ARGV[2]~='r/' then local f=string.find for _,a in ipairs(call('zrange',k,0,-1)) do \
         if f(a,t,-#t,true) then local _,e=f(a,'^%d+/%d+/') \
         if e and string.sub(a,e+1)==t then m,v=a,call('zscore',k,a) break end end end end \
         if not v then return 0 end call('zrem',k,m) ",
        kind_of_member!(),
        read_time!(),
        "local l=call('zrange',k,-1,-1,'withscores') \
         if l[1] then local x,y,z=l[2]+0,true,{} \
         if x<n then ",
        read_what_is_over!(),
        "if y then for i=1,#z do call('zrem',k,z[i]) end end \
         elseif o(l[1]) and x%1==0 and x<=9e15 then call('pexpireat',k,math.max(x,n+1)) end end \
         return v+0<n and 0 or 1"
    ),
    sha1: "7a03716b476dae7ce04ba071bf4f9764813f49de",
};
