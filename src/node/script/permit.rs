//! The scripts of permits.
//!
//! A permit is one of K slots, which is held like a lock. The holders stand in the same sorted set as those of
//! [shared locks](super::shared), where the answers, the members and the other scripts are described. A set has the
//! permits of one K only, and never two live members in one slot.

use super::Script;
use super::shared::{
    end_unless_all_permitted, kind_of_member, read_arguments, read_time, read_what_is_over,
    said_and_whether_it_counts,
};

/// Takes the first free slot, from a given one on round to the one before it. Answers three integers:
///
/// ```text
/// {1, b, slot}   taken, or the token has this slot already; then it gets at least this ttl
/// {2, b, ms}     all slots are taken. In this many milliseconds, plus one, the first of them ends
/// {2, b, 0}      the key is another's
/// {3, b, K}      there are so many permits
/// ```
///
/// `b` says whether that counts. `-5` or less alone: the user may not run one of the commands. Nothing was done unless a slot
/// was taken. Without a ttl it only asks for the permissions.
///
/// The arguments behind the marker are K, the first slot to try, how many slots are tried, and the commands to check.
pub(crate) const TAKE_SLOT: Script = Script {
    text: concat!(
        read_arguments!(),
        end_unless_all_permitted!("7", "2-i"),
        kind_of_member!(),
        "local K,N,j,s,r,l=ARGV[4],ARGV[4]+0,ARGV[5]+0,2,0,redis.pcall('zrange',k,-1,-1,'withscores') \
         if l.err then \
         if not string.find(l.err,'WRONGTYPE',1,true) then l=call('zrange',k,-1,-1,'withscores') end \
         else ",
        read_time!(),
        "local x,y,z,u,m=0,true,{},{} \
         if l[1] then x=l[2]+0 ",
        read_what_is_over!(),
        "if y and x>=n then y=x%1==0 and x<=9e15 and o(l[1]) \
         if y and y~=K then y=false if o(l[1])~='r' then s,r=3,o(l[1])+0 end end end \
         if y then local f,q,v=string.match,string.find,call('zrange',k,n,'inf','byscore') \
         for i=1,#v do local a=v[i] local e=f(a,'^%d+',#K+2) or -1 u[e+0]=true \
         if q(a,t,-#t,true) and a==K..'/'..e..'/'..t then m,r=a,e+0 end end \
         if not m and #v>=N then y,r=false,call('zscore',k,v[1])-n+1 end end end \
         if y and not m then for i=j,j+ARGV[6]-1 do \
         if not u[i%N] then r=i%N m=K..'/'..r..'/'..t break end end \
         if not m then y,r=false,call('zrange',k,n,'inf','byscore','limit',0,1,'withscores')[2]-n+1 end end \
         if y then s=1 for i=1,#z do call('zrem',k,z[i]) end \
         local d=math.min(n+ARGV[2],9e15) call('zadd',k,'gt',d,m) call('pexpireat',k,math.max(d,x)) end end ",
        "local b=0 if g~='' then \
         local m=redis.pcall('get',KEYS[#KEYS-1]) b=call('pttl',KEYS[#KEYS]) \
         if m~=g then b=-1 elseif b==-1 then b=1000 elseif b<0 then b=0 else b=b+1 end end return {s,b,r}"
    ),
    sha1: "1ef24d69193ee0f0752e512ea918ff35cf5bc406",
};

/// Moves the token to another slot if that is free, and keeps the deadline. Answers `1`: it has this slot, `0`: it has
/// none, or that is over, `-1`: another has this slot. The ttl is empty, and the fourth argument is the prefix of the
/// member in this slot.
pub(crate) const MOVE_SLOT: Script = Script {
    text: concat!(
        read_arguments!(),
        read_time!(),
        "local s,p,f,q,m,h=0,ARGV[4],string.find,string.sub \
         for _,a in ipairs(call('zrange',k,n,'inf','byscore')) do \
         if f(a,p,1,true)==1 then h=a end \
         local _,e=f(a,'^%d+/%d+/') if e and q(a,e+1)==t then m=a end end \
         if m then if m==p..t then s=1 elseif h then s=-1 \
         else s=1 call('zadd',k,call('zscore',k,m),p..t) call('zrem',k,m) end end ",
        said_and_whether_it_counts!()
    ),
    sha1: "a1bdeb85b2819812b0741b1eddc240974c616686",
};
