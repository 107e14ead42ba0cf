// Highlighting of dlsh in JupyterLab 4 and Notebook 7: an extension as they load them, a container of webpack's module federation,
// written by hand. `dlsh kernel install` makes it of labextension.in.js and mode.in.js.
(() => {
"use strict";
//= mode.in.js
let shared = {}; // name: {version: {get, loaded}}

/* A module of the application: the version it runs. */
async function take(name) {
    const versions = Object.values(shared[name] || {});
    const chosen = versions.find(v => v.loaded) || versions[versions.length - 1];
    if (!chosen) throw new Error("dlsh: this application has no " + name);
    return (await chosen.get())();
}

async function plugin() {
    const [{IEditorLanguageRegistry}, {LanguageSupport, StreamLanguage}] =
        await Promise.all([take("@jupyterlab/codemirror"), take("@codemirror/language")]);
    const language = StreamLanguage.define({
        name: "dlsh",
        startState: mode.startState,
        copyState: mode.copyState,
        token: mode.token,
        indent: (state, after, context) => mode.columns(state, after, context.unit),
        languageData: {
            commentTokens: {line: "#"},
            closeBrackets: {brackets: ["(", "[", "{", "'", '"']},
            indentOnInput: /^\s*[)\]}]$/
        }
    });
    return {
        id: "dlsh:language",
        description: "Highlighting of dlsh",
        autoStart: true,
        requires: [IEditorLanguageRegistry],
        activate: (app, languages) => {
            languages.addLanguage({
                name: "dlsh",
                mime: "text/x-dlsh",
                extensions: ["dlsh"],
                support: new LanguageSupport(language)
            });
        }
    };
}

(window._JUPYTERLAB = window._JUPYTERLAB || {}).dlsh = {
    init: scope => { shared = scope; },
    get: async module => {
        if (module !== "./extension") throw new Error("dlsh: there is no module " + module);
        const made = await plugin();
        return () => ({__esModule: true, default: made});
    }
};
})();
