# Programs with one mistake each, whose line a comment `#! CAUSE` marks: the doctor names cause and line. Programs that are
# well, h*.dlsh and k*.dlsh: it is quiet.
for f in b*.dlsh c*.dlsh d*.dlsh e*.dlsh; do
    line=$(grep -n '#!' "$f" | head -1 | cut -d: -f1)
    cause=$(sed -n "${line}s/.*#! //p" "$f")
    dlsh -n --db none "$f" >out 2>err || { echo "$f: failed"; cat err; continue; }
    awk -v place="$f:$line " -v cause="$cause" '
        /^      cause/ { named = $0 ~ cause }
        /^      line/ && named && index($0 " ", place) { found = 1 }
        END { exit !found }' out || { echo "$f: '$cause' is not named at line $line"; cat out err; }
    [ "$f" = c35_clipped_scaled.dlsh ] || continue
    sed 's/clip_grad_norm(m/clip_grad_value(m/' "$f" >value
    dlsh -n --db none value | grep "evidence  the limit" | sed 's/; line.*//'
done
for f in h*.dlsh k*.dlsh; do
    dlsh -n --db none "$f" >out 2>err || cat err
    grep -q FAIL out && { echo "$f: a false alarm"; cat out; }
done
# asked before anything has run, it watches what comes then
(echo doctor; cat b13_no_zero.dlsh) >asked.dlsh
dlsh -n --db none asked.dlsh 2>err | grep -o "nothing to look at yet\|FAIL  gradients are zeroed"
true
