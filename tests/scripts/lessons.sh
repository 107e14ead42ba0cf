# Each lesson, with the answers of a learner; some give wrong ones first.
export HOME="$PWD" XDG_STATE_HOME="$PWD/state"
answer() {
    n=$1
    shift
    printf '%s\n' "$@" | dlsh -n -c "lesson $n" > out.txt
    sed -n 's/.*not yet: /not yet: /p' out.txt
    tail -1 out.txt
}
answer 1 6 '15 * 2 ** 2 - 4' -3 4
answer 2 15 '2 * (1 - t ** 2)' 0
answer 3 7 't + x * (1 - t ** 2)' 8 4 3
answer 4 3 '2 * x' 3 '2, 2, 2' 3 'sum(x, dim=0)' 21 '[2, 1]' '[[6], [15]]'
answer 5 4 'sum(g, dim=0)' '[2, 4]' 'x.T @ g' '[3, 2]' 'g @ w.T' '[4, 2]' 'h.T @ ones(3, 2)'
answer 6 '[1, 1]' 'x.T @ error * 2 / 4' 1 'sum(error) * 2 / 4' 1 3 2
answer 7 4 '0, 0, 30, 40' 2 '0, 0' 3 '0, 2, 0' 3 '2, 0, 2' 3 '0, 3, 0' 2 '0.25, 0'
answer 8 '1, 3' 'p - tensor([[0, 1, 0]])' 0 '2, 3' 'p - t' '(p - t) / 2' 'log(10)'
answer 9 '3' '3, 1' '[[-1/3], [-1/3], [2/3]]' '3, 1' 'zeros(3, 1)' '3, 1' '(g - mean(g) - y * mean(g * y))' \
    '(g - mean(g) - y * mean(g * y)) / s' 1 'y[0, 0]' 1 1
answer 10 '3, 2' 'p.T @ g' '1, 2' '(p * (dp - sum(p * dp))) @ k' '(p * (dp - sum(p * dp))) @ k / sqrt(2.0)' '3, 2' \
    '(p * (dp - sum(p * dp))).T @ q / sqrt(2.0)' '3, 2' 'p.T @ g'
# in place of an answer: a hint, the result, the end of the lesson, which is no answer
printf 'hint\nskip\nhint\nq\n' | dlsh -n -c 'lesson 5' | tail -4
printf '6\nq\n' | dlsh -n -c 'lesson 1
print("on")' | tail -2
dlsh -n -c 'lesson' | sed 's/  [0-9-]* [0-9:]*$/  WHEN/'
# a lesson of one's own; what had a value gets it back; errors
printf '# Lesson 0: mine\n#\n# Some prose\n# goes on.\n\nx = param(2.0)\nfor i in range(2) {\n    y = x ** i\n}\nbackward y\n\n# The end.\n\n# A second paragraph.\n' > mine.dlsh
dlsh -n -c 'x = 7; lesson mine.dlsh
print(x, y.item())'
dlsh -n -c 'lesson 11' 2>&1
dlsh -n -c 'lesson absent.dlsh' 2>&1
dlsh -n -c 'lesson 1 out="a.pdf"' 2>&1
dlsh -n -c 'lesson 2 out="two.dlsh"; lesson 3 out="three.ipynb"'
head -1 two.dlsh
python3 -c '
import json
n = json.load(open("three.ipynb"))
print(len(n["cells"]), n["nbformat"], [c["cell_type"][0] for c in n["cells"]][:6])
print("".join(n["cells"][1]["source"]))'
