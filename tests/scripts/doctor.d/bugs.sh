# Programs with one mistake each, whose line a comment `#! CAUSE` marks: the doctor names cause and line. Their files are the
# arguments.
for f; do
    line=$(grep -n '#!' "$f" | head -1 | cut -d: -f1)
    cause=$(sed -n "${line}s/.*#! //p" "$f")
    dlsh -n --db none "$f" >out 2>err || { echo "$f: failed"; cat err; continue; }
    awk -v place="$f:$line " -v cause="$cause" '
        /^      cause/ { named = $0 ~ cause }
        /^      line/ && named && index($0 " ", place) { found = 1 }
        END { exit !found }' out || { echo "$f: '$cause' is not named at line $line"; cat out err; }
    case $f in # the cause alone: what follows from it is a note, and nothing passes that it spoils
    gw* | gf2[0-9]* | gp02* | gp03* | gt59* | gq15* | gq18* | gd06* | gi14* | gh15*) [ "$(grep -c ^FAIL out)" = 1 ] || { echo "$f: more than the cause"; cat out; } ;;
    esac
    [ "$f" = c35_clipped_scaled.dlsh ] || continue
    sed 's/clip_grad_norm(m/clip_grad_value(m/' "$f" >value
    dlsh -n --db none value | grep -q "evidence  the limit is 1;" || echo "$f: no limit of values"
done
