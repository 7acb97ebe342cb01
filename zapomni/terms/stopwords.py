"""The commonest words of the languages that are told apart, in their plain written form.

They serve twice: a query drops the ones of its own language, and a text is taken to be in the language that most
of them belong to. The lists are short where only the second use matters; English and Russian have no better
evidence than a long list, since so many of their questions are made of these words.
"""

from __future__ import annotations

_ENGLISH = """
a about above after again against all also am an and any are aren as at be because been before being below between
both but by can cannot could couldn did didn do does doesn doing don done down during each either else ever few for
from further get gets getting got had hadn has hasn have haven having he her here hers herself him himself his how i
if in into is isn it its itself just let ll m many may me might mightn more most much must mustn my myself needn no
nor not now of off on once only or other our ours ourselves out over own re s same shall shan she should shouldn so
some such t than that the their theirs them themselves then there these they this those through to too under until
up upon us ve very was wasn we were weren what when where whether which while who whom whose why will with won would
wouldn y you your yours yourself yourselves
"""
_RUSSIAN = """
а без более бы был была были было быть в вам вас ваш весь во вот все всего всех вы где да даже для до его ее если
есть еще ж же за здесь и из или им их к как какая какие каким каких какой какого каком какую ко когда которая которые
который которого которых кто куда ли либо между меня мне мной может мой моя мы на над надо нам нас наш не него нее нет
ни них но ну о об однако он она они оно от откуда очень перед по под почему при про с сам свой себя себе скольких
сколько со так также такой там тем то того тоже той только том тот ту тут ты у уже хотя чего чей чем через что чтобы
чье чья эта эти это этого этой этом этот эту я
"""
_OTHERS = {
    "german": """
aber als am an auch auf aus bei bin bis da das dass dem den der des die dich dir doch du durch ein eine einem einen
einer eines er es für haben habe hat hatte ich ihm ihn ihr im in ist ja kann kein keine man mein meine mich mir mit
nach nicht noch nur ob oder sein seine sich sie sind so über um und uns unser unter vom von vor wann war waren was
wegen weil welche welcher wenn wer werden wie wir wird wo wurde wurden zu zum zur
""",
    "french": """
à au aux avec avait ce ces cet cette comment combien dans de des du elle elles en est et était eux il ils je la le les
leur leurs lui ma mais me même mes moi mon ne nos notre nous on ont ou où par pas pour pourquoi qu quand que quel
quelle quelles quels qui quoi sa sans se ses son sont sur ta te tes toi ton tu un une vos votre vous y été être avoir
""",
    "spanish": """
a al algo como con cual cuál cuales cuando cuándo cuanto cuánto cuántos de del desde donde dónde dos e el él ella
ellas ellos en entre era es esa ese eso esta está están este esto estos fue fueron ha hay han hasta la las le les lo
los más me mi muy no nos o para pero por porque que qué quien quién quiénes se ser si sí sin sobre su sus también
tiene todo tu un una unos y ya yo
""",
    "italian": """
a ai al alla alle anche che chi ci come con cosa cui da dal dalla degli dei del della delle di dove e è era erano
essere fu gli ha hanno ho i il in io la le lei lo loro lui ma mi mia mio ne nei nel nella noi non o per perché più
quale quali quando quanti quanto quella quello questa questo se si sono su sua sul sulla suo ti tra tu un una uno vi
""",
    "portuguese": """
a ao aos as até com como da das de dela dele depois do dos e é ela elas ele eles em entre era eu foi foram há isso
isto já lhe mais mas me mesmo meu minha muito na não nas nem no nos nós o onde os ou para pela pelo por porque qual
quais quando quanto quantos que quem são se sem ser seu seus só sua suas também te tem uma um você
""",
    "dutch": """
aan al als bij dan dat de deze die dit doen door dus een en er ge geen had heb hebben heeft hem het hier hij hoe hun
ik in is ja je kan kon kunnen maar me meer men met mij mijn moet na naar niet nog nu of om omdat onder ons ook op over
te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want waren was wat we welke werd wie wij wil worden
wordt zal ze zelf zich zij zijn zo zonder zou
""",
    "swedish": """
alla att av blev bli då de dem den denna det detta dig din du där efter ej eller en er ett från för ha hade han hans
har henne hon hur här i icke ingen inte jag kan kunde man med mellan men mig min mot mycket ni nu när någon några och
om oss på sedan sig sin ska skulle som så till under upp ut utan vad var varför vem vi vid vilka vilken är över
""",
    "danish": """
af alle at blev blive da de dem den denne der det dette dig din du efter eller en end er et for fra ham han hans har
havde hende hendes her hun hvad hvem hvilken hvor hvordan hvorfor hvornår i ikke ind jeg kan kunne man med meget men
mig min mod nu når og også om op os over på selv sig skal skulle som til ud under var ved vi vil ville være været
""",
    "norwegian": """
alle at av bare ble bli da de dem den denne der det dette din du eller en enn er et etter for fordi fra ha hadde han
hans har hennes her hun hva hvem hvilken hvor hvordan hvorfor i ikke inn jeg kan kunne man med meg men mer min mot
mye noe noen nå når og også om opp oss over på seg selv skal skulle som til ut uten var ved vi vil ville være vært
""",
    "finnish": """
ei eivät että hän he ja jo joka jos jotka kanssa kenen kuin kuinka kuka kun me mihin mikä miksi milloin missä mitä
mitkä mukaan mutta myös ne niin nyt oli olivat olla on ovat paljonko se sekä sen siellä sitä ja tai tämä tämän vai
vain vaikka
""",
    "turkish": """
ama bana ben bir biri biz bu bunu çok çünkü da daha de değil diye en gibi hangi hem hiç için ile ise kaç kadar kim
kime mi mı mu mü nasıl ne neden nerede nereye o olan olarak oldu on ona onlar onu sen siz şey şu ve veya ya yani zaman
""",
    "polish": """
a aby ale bardzo bez był była było być by chce ci co czy dla do gdy gdzie go i ich ile im ja jak jaka jaki jakie je
jego jej jest jeszcze już każdy kiedy kto która które który lub ma mi mnie mój może my na nad nie nim o od on ona oni
oraz po pod przed przez przy się są ta tak także tam te tego tej ten to tu ty tylko tym w we wszystko z za ze że
""",
    "czech": """
a aby ale ani ano až bez by byl byla byli bylo být co což či do for ho i já jak jaký je jeho jej jejich jen ještě jeho
jsem jsou k kde kdo kdy když která které který ke má mi mně na nad ne nebo není o od on ona oni pak po pod pro proč
protože před při s se si své ta tak také tam to tom tu ty u už v ve však více z za ze že
""",
    "romanian": """
a acest această ai al ale am ar are așa au avea ca că când care ce cel cine cât câți cu cum da dar de din dintr după
ea ei el ele era este eu fi fie fost îi în între la le lor lui mai mult ne nici noi nu o pe pentru prin sa să sale
sau se sunt și su te toate tot un una unde unei unui va vă vor
""",
    "hungarian": """
a az azt be csak de egy el én és ez ezt fel ha hanem hány hogy hogyan hol is így itt jó ki kell kik kinek le lehet
lesz meg mely melyik mert mi miért mikor milyen mint minden mit most nagy nem neki olyan ő ők össze s sem szerint
től vagy van vannak volt voltak
""",
}

STOP_WORDS: dict[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "russian": frozenset(_RUSSIAN.split()),
    **{language: frozenset(words.split()) for language, words in _OTHERS.items()},
}
