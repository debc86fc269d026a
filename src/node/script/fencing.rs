//! The scripts of fencing tokens: a counter for each name, and one counter floor for the whole node.
//!
//! The keys are the names, the counter of each name, the floor, and, if a marker is checked, the keys of
//! the [marker](super::super::trust::marker) and the barrier. The arguments are the token, the ttl, the marker (empty
//! if none is checked), a number, the life of a counter in milliseconds, and the `run_id` of the server.
//!
//! * If a counter is missing, the floor is used instead. The floor is at least as high as every counter has ever been.
//! * The floor is `run_id:base:number`. If the floor is missing, or belongs to another `run_id`, the node may have lost
//!   counters. A node without a usable floor refuses fenced locks, and changes nothing.
//! * During a repair, the floor is `run_id:?nonce:number`. Until the repair ends, the node refuses fenced locks,
//!   because it may have lost its data. Each detected loss gets a new random nonce, so a delayed repair for an earlier
//!   loss changes nothing.
//! * The base is the first number of the floor under this `run_id`. A counter below the base is an old counter that was
//!   restored from a disk. If a counter is below the base, the base is used instead.
//! * Counters are whole numbers below 2^53, which are exact in Lua, and are printed by `%.0f`.

use super::{Script, end_unless_permitted};

/// Puts the keys into `K`, the arguments into `A`, the token into `t`, the marker into `g`, the number of names into
/// `n`, and the key of the floor into `f`.
macro_rules! read_arguments {
    () => {
        "local call,K,A=redis.call,KEYS,ARGV local t,g,n=A[1],A[3],#K if g~='' then n=n-2 end \
         local f=K[n] n=(n-1)/2 "
    };
}

/// Puts the floor's `run_id`, its base as text, and its number into `r`, `o` and `x`. Also puts the base, as a number,
/// into `l`. If the floor is not usable, `r` becomes nil.
///
/// The script converts a number to text only if the number changes, because `%.0f` costs a server as much as a `SET`.
macro_rules! read_floor {
    () => {
        "local r,v=A[6],call('get',f) or '' local o,x=string.match(v,'^:(%d+):(%d+)$',#r+1) local l \
         if not o or string.sub(v,1,#r)~=r then r=nil \
         else l,x=o+0,x+0 if l>9e15 or x>9e15 then r=nil end end "
    };
}

/// Puts the counter with this key into `k`. If the counter is not a number, or is too large for a counter of this
/// library, the floor is used instead.
macro_rules! read_counter {
    ($key:literal) => {
        concat!(
            "local k=tonumber(call('get',",
            $key,
            ") or x) if not (k and k>=0 and k<=9e15) then k=x end if k<l then k=l end "
        )
    };
}

/// Raises the floor to the number `s`, if the floor is lower. `d` is the number `s` as text.
macro_rules! lift_floor {
    () => {
        "if s>x then call('set',f,r..':'..o..':'..d) end "
    };
}

/// Sets `b` to the result of the marker check: see the [parent module](super).
macro_rules! whether_it_counts {
    () => {
        "local b=0 if g~='' then \
         local m=redis.pcall('get',K[#K-1]) b=call('pttl',K[#K]) \
         if m~=g then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end end "
    };
}

pub(super) use {lift_floor, read_counter, read_floor};

/// Takes all names or none, and raises the counters of all names to the same number. The new number is higher than all
/// of these counters, and not lower than the proposal. The script limits the proposal to the server's clock plus one
/// second. The proposal is not limited if the mark in the token (`WANTED_MARK`) says that a node has answered an
/// earlier attempt with this number. If the script takes the names and checks no marker, it answers with only the
/// number, as text, because three integers would cost a server half a microsecond more. Otherwise the script answers
/// with three integers:
///
/// ```text
/// {1, b, number}   taken
/// {i + 1, b, 0}    the i-th name belongs to another client
/// {-1, 0, 0}       the floor is missing or belongs to another run_id
/// {-1, 0, 1}       there is no larger number
/// {0, b, number}   the number would be this one, but the token names another
/// {-2, 0, 0}       the user may not run `TIME`
/// {-i - 2, 0, 0}   the user may not run the i-th of the commands after the run_id
/// ```
///
/// The script does nothing unless it takes the lock. The integer `b` says whether the answer counts. The key of the
/// lock is written last. A script that fails half-way leaves counters that are too high, which does no harm.
pub(crate) const TAKE_FENCED: Script = Script {
    text: concat!(
        read_arguments!(),
        "local c=A[7] and redis.acl_check_cmd if c then if not c('time') then return {-2,0,0} end \
         for i=7,#A do for j=1,2*n+1 do ",
        end_unless_permitted!("K[j]", "{4-i,0,0}"),
        " end end end ",
        read_floor!(),
        "if not r then return {-1,0,0} end ",
        whether_it_counts!(),
        "for i=1,n do local v=redis.pcall('get',K[i]) \
         if v then \
         if type(v)=='table' and not string.find(v.err,'WRONGTYPE',1,true) then v=call('get',K[i]) end \
         if v then return {i+1,b,0} end end end \
         local p,w=A[4]+0,call('time') \
         local e,s=string.sub(t,9,13),(w[1]+1)*1000000 if p>s then s=s+w[2] end \
         if p<s or e=='\\0Term' then s=p end \
         for i=n+1,2*n do ",
        read_counter!("K[i]"),
        "if k>=s then s=k+1 end end if s>9e15 then return {-1,0,1} end \
         if s~=p and (e=='\\0term' or e=='\\0Term') then return {0,b,s} end \
         local d=s==p and A[4] or string.format('%.0f',s) ",
        lift_floor!(),
        "for i=n+1,2*n do call('set',K[i],d,'px',A[5]) end \
         for i=1,n do call('set',K[i],t,'px',A[2]) end \
         if g=='' then return d end return {1,b,s}"
    ),
    sha1: "2a551eb002439e625d86d348863b23d88f2f1f44",
};

/// Raises all counters and the floor to at least the given number, if the keys of all names contain the token. Answers
/// `1` if the counters and the floor were raised. Otherwise the script changes nothing. The answer is then `-1` if a
/// name belongs to another client. The answer is `0` if a name does not exist, or if the floor is missing or belongs to
/// another `run_id`. With a marker check, the script adds whether the answer counts.
pub(crate) const RAISE_FENCED: Script = Script {
    text: concat!(
        read_arguments!(),
        "local y=1 for i=1,n do local v=call('get',K[i]) \
         if not v then if y==1 then y=0 end elseif v~=t then y=-1 end end ",
        read_floor!(),
        "if y==1 and not r then y=0 end if y==1 then local d,s=A[4],tonumber(A[4]) ",
        lift_floor!(),
        "for i=n+1,2*n do ",
        read_counter!("K[i]"),
        "if k<s then call('set',K[i],d,'px',A[5]) end end end if g=='' then return y end ",
        whether_it_counts!(),
        "return {y,b}"
    ),
    sha1: "e69f119ba81e7b0ed194a4dc871fbeb827a62803",
};

/// Writes a floor for this `run_id` that is not lower than the current floor. Answers `1`. The arguments are the
/// `run_id`, a number, and a second number, which is limited to the server's clock plus one second. The floor is the
/// only key.
pub(crate) const SET_FLOOR: Script = Script {
    text: "local x=tonumber(string.match(redis.call('get',KEYS[1]) or '',':(%d+)$') or 0) \
           if x>9e15 then x=0 end \
           local w=redis.call('time') \
           local s=math.max(x,tonumber(ARGV[2]),math.min(tonumber(ARGV[3]),w[1]*1000000+w[2]+1000000)) \
           redis.call('set',KEYS[1],string.format('%s:%.0f:%.0f',ARGV[1],s,s)) return 1",
    sha1: "41b00d3cd485a66d39e18a0cdabf292d516004a3",
};

/// Reads the floor. Answers `{1, number}` if the floor belongs to this `run_id`. Otherwise the script begins a repair
/// of the floor, unless one has already begun, and answers `{0, nonce}` with the nonce of the repair. The arguments are
/// the `run_id`, and the nonce for a new repair. The floor is the only key.
pub(crate) const LOOK_AT_FLOOR: Script = Script {
    text: "local v=redis.call('get',KEYS[1]) or '' local \
           r,m,n,x=string.match(v,'^(.+):(%??)(%d+):(%d+)$') x=tonumber(x or \
           string.match(v,':(%d+)$') or 0) if tonumber(n or 0)>9e15 then r=nil end \
           if x>9e15 then r,x=nil,0 end if r==ARGV[1] and m=='' \
           then return {1,x} end if r~=ARGV[1] then n=ARGV[2] \
           redis.call('set',KEYS[1],string.format('%s:?%s:%.0f',ARGV[1],n,x)) end return \
           {0,tonumber(n)}",
    sha1: "9c87c1eb40af6ce1f518b8faefe13843ba4cc932",
};

/// Ends the repair of the floor under this nonce. Answers `1` if the repair has ended. The floor then belongs to this
/// `run_id`, and is not lower than the given number. Answers `0`, and changes nothing, if no repair with this nonce has
/// begun. The arguments are the `run_id`, the nonce and the number. The floor is the only key.
pub(crate) const REPAIR_FLOOR: Script = Script {
    text: "local r,n,x=string.match(redis.call('get',KEYS[1]) or '','^(.+):%?(%d+):(%d+)$') if \
           r~=ARGV[1] or n~=ARGV[2] then return 0 end local \
           s=math.max(tonumber(x),tonumber(ARGV[3])) \
           redis.call('set',KEYS[1],string.format('%s:%.0f:%.0f',r,s,s)) return 1",
    sha1: "2ce6090e11b40b410717a10be54dd502e35d4045",
};

/// Scans about two thousand keys and counts the counters among them, which takes a server one or two milliseconds. The
/// answer has the form of [`INSPECT`](super::INSPECT): the count, 0, and the cursor for the next call, which is `0` at
/// the end. The only argument is the cursor, and the script has no keys.
///
/// The script keeps the cursor as a text, because Lua numbers cannot hold its 64 bits.
pub(crate) const COUNT_COUNTERS: Script = Script {
    text: "local r=redis.call('scan',ARGV[1],'match','shearline:fence:*','count',2000) \
           return {#r[2],0,r[1]}",
    sha1: "4581f6e461ae5063cb65d382fcc6e1f9c96745b4",
};

/// Lists the names of locks among about the next two thousand keys, which takes a server a few milliseconds. The
/// arguments are the cursor and the beginning of the names. The answer has the form of [`COUNT_COUNTERS`], with a list
/// in place of the 0. A name of 192 bytes or more takes several elements of the list, because the library cuts longer
/// strings. An element of 192 bytes continues in the next element.
///
/// A key is the name of a lock if [`INSPECT`](super::INSPECT) could find a token or holders there. These keys are
/// strings that are not longer than the longest token, and sorted sets. The answer is `-1` if the user may not run
/// `STRLEN`, and `-2` if it may not run `TYPE`. If the names of one step do not fit into a reply, the script scans
/// fewer keys.
///
/// The script leaves out keys that the user is not permitted to read: the server's error then contains "a key" or "the
/// keys". A server may log each of these errors. So after the first error, the script calls `acl_check_cmd` before it
/// reads a key, if the server has this function.
pub(crate) const LIST_NAMES: Script = Script {
    text: "local c,f,n=redis.pcall,string.find,2000 local d,p,o,b,r \
           p=string.gsub(ARGV[2],'[%*%?%[%]\\\\]','\\\\%0')..'*' \
           repeat o,b,r={},0,redis.call('scan',ARGV[1],'match',p,'count',n) \
           for _,k in ipairs(r[2]) do if k~='' and #k<=1024 and f(k,'shearline:',1,true)~=1 \
           and (not d or d('type',k)) then local t=c('type',k) local l=t.ok=='zset' and 1 or t.err and t or 0 \
           if t.ok=='string' then l=c('strlen',k) end if type(l)=='table' then \
           if f(l.err,'[^r] key') then d,l=redis.acl_check_cmd,0 \
           elseif f(l.err,'[s\\'] command') then return t.ok and -1 or -2 else return l end end \
           if l>0 and l<85 then b=b+#k+16 \
           for i=1,#k+1,192 do o[#o+1]=string.sub(k,i,i+191) end end end end \
           n=(n-n%8)/8 until b<6e4 or n<1 return {0,o,r[1]}",
    sha1: "980706c74fe71fdb8f4ce8b52ca572ff016c3afe",
};
